//! Nested edits of a text, and the position of each edit in the result.

use std::ops::Range;

/// An insertion, or the replacement of `at` if that is not empty.
struct Edit {
    at: Range<usize>,
    /// The edit ends what another edit of the same site began.
    closes: bool,
    depth: usize,
    site: usize,
    /// The texts to write, each with the mutant that it exclusively belongs to.
    pieces: Vec<(String, Option<usize>)>,
}

/// The edits of one piece of syntax, for some mutants.
pub(crate) struct Site {
    depth: usize,
    mutants: Vec<usize>,
}

#[derive(Default)]
pub(crate) struct Edits {
    sites: Vec<Site>,
    edits: Vec<Edit>,
}

/// Text that was written for these mutants.
struct Mark {
    range: Range<usize>,
    mutants: Vec<usize>,
}

pub(crate) struct Woven {
    pub(crate) text: String,
    marks: Vec<Mark>,
}

pub(crate) fn piece(text: impl Into<String>) -> Vec<(String, Option<usize>)> {
    vec![(text.into(), None)]
}

impl Edits {
    /// Adds a site that is enclosed by sites of lower depth.
    pub(crate) fn site(&mut self, depth: usize, mutants: &[usize]) -> usize {
        self.sites.push(Site { depth, mutants: mutants.to_vec() });
        self.sites.len() - 1
    }

    fn add(&mut self, site: usize, at: Range<usize>, closes: bool, pieces: Vec<(String, Option<usize>)>) {
        self.edits.push(Edit { at, closes, depth: self.sites[site].depth, site, pieces });
    }

    /// Inserts before the code that begins at `at`.
    pub(crate) fn open(&mut self, site: usize, at: usize, pieces: Vec<(String, Option<usize>)>) {
        self.add(site, at..at, false, pieces);
    }

    /// Inserts after the code that ends at `at`.
    pub(crate) fn close(&mut self, site: usize, at: usize, pieces: Vec<(String, Option<usize>)>) {
        self.add(site, at..at, true, pieces);
    }

    pub(crate) fn replace(&mut self, site: usize, at: Range<usize>, text: impl Into<String>) {
        self.add(site, at, false, piece(text));
    }

    /// Removes the sites within text that another site replaces; returns their mutants.
    pub(crate) fn leave_out_covered(&mut self) -> Vec<usize> {
        let replaced: Vec<(Range<usize>, usize)> =
            self.edits.iter().filter(|edit| !edit.at.is_empty()).map(|edit| (edit.at.clone(), edit.site)).collect();
        let is_covered = |edit: &Edit| {
            replaced.iter().any(|(range, site)| {
                let starts = range.start < edit.at.start
                    || (range.start == edit.at.start && edit.depth > self.sites[*site].depth);
                *site != edit.site && starts && edit.at.start < range.end
            })
        };
        let covered: Vec<usize> = self.edits.iter().filter(|edit| is_covered(edit)).map(|edit| edit.site).collect();
        self.edits.retain(|edit| !covered.contains(&edit.site));
        covered.into_iter().flat_map(|site| self.sites[site].mutants.clone()).collect()
    }

    pub(crate) fn apply(mut self, source: &str) -> Woven {
        // Order at one position: first the edits that close, innermost first, then the edits that open, outermost
        // first.
        self.edits.sort_by_key(|edit| {
            let depth = edit.depth.cast_signed();
            (edit.at.start, !edit.closes, !edit.at.is_empty(), if edit.closes { -depth } else { depth })
        });
        let mut text = String::with_capacity(source.len() * 4);
        let mut marks: Vec<Mark> = Vec::new();
        let mut whole: Vec<Option<Range<usize>>> = vec![None; self.sites.len()];
        let mut done = 0;
        for edit in self.edits {
            text.push_str(&source[done..edit.at.start]);
            done = edit.at.end;
            let start = text.len();
            for (piece, mutant) in edit.pieces {
                let start = text.len();
                text.push_str(&piece);
                marks.extend(mutant.map(|id| Mark { range: start..text.len(), mutants: vec![id] }));
            }
            whole[edit.site] = match whole[edit.site].take() {
                Some(range) => Some(range.start..text.len()),
                None => Some(start..text.len()),
            };
        }
        text.push_str(&source[done..]);
        let whole = whole.into_iter().zip(self.sites);
        marks.extend(whole.filter_map(|(range, site)| Some(Mark { range: range?, mutants: site.mutants })));
        Woven { text, marks }
    }
}

impl Woven {
    /// Returns the mutants whose text a compiler error refers to.
    pub(crate) fn mutants_at(&self, range: &Range<usize>) -> &[usize] {
        let around = self.marks.iter().filter(|mark| mark.range.start <= range.start && range.end <= mark.range.end);
        around.min_by_key(|mark| mark.range.len()).map_or(&[], |mark| &mark.mutants)
    }
}
