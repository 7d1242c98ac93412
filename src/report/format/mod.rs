//! The one table of formats, from which the command line, its help, `version -o json` and the documentation are made.

mod html;
pub(crate) mod json;
pub(crate) mod junit;
mod markdown;
pub(crate) mod ndjson;
pub(crate) mod plan;
pub(crate) mod prometheus;
pub(crate) mod text;

use std::fmt;
use std::io::{self, Write as _};

use super::Report;
use super::merged::{self, Overview};
use super::view::style::TextStyle;
use crate::text::lines::Lines;

type Grow = fn(&Report, usize, &mut dyn io::Write) -> io::Result<()>;

/// A format in which a report can be written.
pub(crate) struct Format {
    /// Name as typed.
    pub(crate) name: &'static str,
    /// Readers and purpose, in a few words.
    pub(crate) about: &'static str,
    /// Media type, for an HTTP header or an index of artifacts.
    pub(crate) media_type: &'static str,
    /// Usual extension of such files, without the dot.
    pub(crate) extension: &'static str,
    /// Writes a growing document without the part about this number of events. A later document begins with all of an earlier one.
    grow: Option<Grow>,
    write: fn(&Report, &TextStyle, &mut dyn io::Write) -> io::Result<()>,
    /// Writes the document for a receiver, if it differs from the one in a file.
    post: Option<Post>,
    /// Writes several clusters; `None` for a format that follows one run.
    merged: Option<WriteMerged>,
}

type Post = fn(&Report, &mut dyn io::Write) -> io::Result<()>;
type WriteMerged = fn(&Overview<'_>, &TextStyle, &mut dyn io::Write) -> io::Result<()>;

pub(crate) static TEXT: Format = Format {
    name: "text",
    about: "Human-readable: the verdict, each stage, then the causes and next steps",
    media_type: "text/plain",
    extension: "txt",
    grow: None,
    write: |report, style, out| text::write(report, style, out),
    post: None,
    merged: Some(merged::text::write),
};

pub(crate) static JSON: Format = Format {
    name: "json",
    about: "One document with everything, described by a schema",
    media_type: "application/json",
    extension: "json",
    grow: None,
    write: |report, _, out| json::write(report, out),
    post: None,
    merged: Some(json::write_merged),
};

pub(crate) static NDJSON: Format = Format {
    name: "ndjson",
    about: "One event per line, as it happens; the last one has the JSON document",
    media_type: "application/x-ndjson",
    extension: "ndjson",
    grow: Some(ndjson::write),
    write: |report, _, out| ndjson::write(report, 0, out),
    post: None,
    merged: None,
};

pub(crate) static JUNIT: Format = Format {
    name: "junit",
    about: "XML for test viewers: GitLab, Jenkins, GitHub Actions",
    media_type: "application/xml",
    extension: "xml",
    grow: None,
    write: |report, _, out| junit::write(report, out),
    post: None,
    merged: Some(junit::write_merged),
};

pub(crate) static MARKDOWN: Format = Format {
    name: "markdown",
    about: "For step summaries, merge requests and issues",
    media_type: "text/markdown",
    extension: "md",
    grow: None,
    write: |report, style, out| markdown::write(report, style, out),
    post: None,
    merged: Some(markdown::write_merged),
};

pub(crate) static HTML: Format = Format {
    name: "html",
    about: "One page with everything, for a browser: artifacts of CI jobs, tickets",
    media_type: "text/html",
    extension: "html",
    grow: None,
    write: |report, _, out| html::write(report, out),
    post: None,
    merged: Some(html::write_merged),
};

pub(crate) static PROMETHEUS: Format = Format {
    name: "prometheus",
    about: "Metrics for the textfile collector of node-exporter",
    media_type: "text/plain; version=0.0.4",
    extension: "prom",
    grow: None,
    write: |report, _, out| prometheus::write(report, out),
    post: Some(prometheus::write_posted),
    merged: Some(prometheus::write_merged),
};

/// All formats, in the order in which they are listed.
pub(crate) static ALL: [&Format; 7] = [&TEXT, &JSON, &NDJSON, &JUNIT, &MARKDOWN, &HTML, &PROMETHEUS];

/// Returns the format of this name.
pub(crate) fn find(name: &str) -> Option<&'static Format> {
    ALL.into_iter().find(|format| format.name == name)
}

impl Format {
    /// Writes the report, in many small pieces. Only formats for people use `style`.
    pub(crate) fn write(&self, report: &Report, style: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
        self.in_lines(out, |out| (self.write)(report, style, out))
    }

    /// Writes several clusters. `None`: the format follows one run.
    pub(crate) fn write_merged(
        &self,
        overview: &Overview<'_>,
        style: &TextStyle,
        out: &mut dyn io::Write,
    ) -> Option<io::Result<()>> {
        let write = self.merged?;
        Some(self.in_lines(out, |out| write(overview, style, out)))
    }

    fn in_lines(
        &self,
        out: &mut dyn io::Write,
        write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> io::Result<()> {
        // A page is not a log, and its style sheets have colons of their own.
        if *self == HTML {
            return write(out);
        }
        let mut lines = Lines::new(out);
        write(&mut lines)?;
        lines.flush()
    }

    /// Returns the report as bytes. A large cluster has tens of megabytes, so this is not for files.
    pub(crate) fn render(&self, report: &Report, style: &TextStyle) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write(report, style, &mut out)?;
        Ok(out)
    }

    /// Whether the format contains the JSON document, which `report` can read again.
    pub(crate) fn is_kept(&self) -> bool {
        [&JSON, &NDJSON].contains(&self)
    }

    /// Returns the document for a receiver.
    pub(crate) fn posted(&self, report: &Report) -> io::Result<Vec<u8>> {
        let Some(post) = self.post else { return self.render(report, &TextStyle::default()) };
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out);
        post(report, &mut lines)?;
        lines.flush()?;
        drop(lines);
        Ok(out)
    }

    pub(crate) fn grows(&self) -> bool {
        self.grow.is_some()
    }

    /// Works like [`Format::write`], without the part about the first `told` events if the document grows with them.
    pub(crate) fn write_after(
        &self,
        told: usize,
        report: &Report,
        style: &TextStyle,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        match self.grow {
            Some(grow) => grow(report, told, out),
            None => self.write(report, style, out),
        }
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Format {}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Default for &'static Format {
    fn default() -> Self {
        &TEXT
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_is_found_by_its_name_and_known_by_its_extension() {
        for format in ALL {
            assert_eq!(find(format.name), Some(format));
        }
        assert_eq!(ALL.map(|format| format.extension).into_iter().collect::<BTreeSet<_>>().len(), ALL.len());
        assert_eq!(find("xml"), None);
    }
}
