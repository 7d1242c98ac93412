//! Several clusters for people: the verdict, a line for every cluster, then the problems of each that is not healthy.

use std::io;

use super::Overview;
use crate::model::Exit;
use crate::report::format::text::grid_lines;
use crate::report::view::index::Index;
use crate::report::view::style::{Paint, TextStyle, paint};
use crate::report::view::wording::field;
use crate::report::view::{causes, verdict};
use crate::text::excerpt;
use crate::text::sanitize::{ascii, brief};

/// Number of clusters whose causes are shown in full; the others show only the first.
const FULL: usize = 5;

/// Writes the whole report.
pub(crate) fn write(overview: &Overview<'_>, style: &TextStyle, out: &mut dyn io::Write) -> io::Result<()> {
    let mut lines = vec![overview.verdict(), String::new()];
    grid_lines(&overview.grid(), style, &mut lines);
    details(overview, style, &mut lines);
    lines.push(String::new());
    lines.extend(overview.notes.iter().map(|note| format!("note: {note}")));
    if overview.exit != Exit::Healthy {
        // The verdict is repeated where the reader of a long log looks.
        lines.extend([String::new(), overview.verdict()]);
    }
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    for line in lines {
        let line = if style.ascii { ascii(&line) } else { line };
        writeln!(out, "{}", line.trim_end())?;
    }
    out.flush()
}

/// Writes each cluster that is not healthy, the worst first.
pub(crate) fn details(overview: &Overview<'_>, style: &TextStyle, lines: &mut Vec<String>) {
    let bad = overview.rows.iter().filter(|row| row.exit != Exit::Healthy);
    for (n, row) in bad.enumerate() {
        let causes = row.report().map(|report| causes::of(&Index::of(report), style)).unwrap_or_default();
        if n >= FULL && !style.verbose {
            let first = row.concerns.first().or(causes.first().map(|cause| &cause.headline));
            let said = first.map_or_else(|| row.exit.meaning().to_owned(), |said| brief(said, excerpt::MOST));
            lines.extend((n == FULL).then(String::new));
            lines.push(format!("{}: {}: {said}", row.name, row.state()));
            continue;
        }
        lines.push(String::new());
        let name = paint(style.color, Paint::Heading, &row.name);
        lines.push(format!("{name}: {}", row.state()));
        lines.extend(row.concerns.iter().map(|concern| field("because", concern)));
        lines.extend(row.report().map(|report| field("report", &verdict::line(report, style))));
        causes::write(&causes, style, lines);
    }
}
