//! Characters that control how text is displayed, or that leave nothing visible.

/// `Default_Ignorable_Code_Point` and the general category `Cf`, both of Unicode 16.0, and characters that look like a space but are not
/// white space: the Braille pattern without dots, the blanks and the mirror of Egyptian hieroglyphs, the filler of the Khitan script, the
/// null notehead, and the object replacement character.
///
/// Sorted, inclusive, and no two ranges touch. A test compares the table with another implementation of Unicode.
const RANGES: [(char, char); 28] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffc}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{13442}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d159}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Returns true if a text with this character looks like the text without it, or is displayed in a different order.
pub(super) fn is_invisible(c: char) -> bool {
    let after = RANGES.partition_point(|(_, last)| *last < c);
    RANGES.get(after).is_some_and(|(first, _)| *first <= c)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use regex::Regex;

    use super::*;
    use crate::text::sanitize::clean;

    /// Characters of the table that are neither ignorable nor `Cf`.
    const LIKE_A_BLANK: [char; 7] =
        ['\u{2800}', '\u{fffc}', '\u{13440}', '\u{13441}', '\u{13442}', '\u{16fe4}', '\u{1d159}'];

    /// A newer `regex` supports a newer version of Unicode, and this test then requires the table to be updated.
    #[test]
    fn the_table_is_the_one_of_unicode() {
        let all: String = ('\0'..=char::MAX).collect();
        let oracle = Regex::new(r"[\p{Cf}\p{Default_Ignorable_Code_Point}]").unwrap();
        let mut expected: BTreeSet<char> =
            oracle.find_iter(&all).map(|found| found.as_str().chars().next().unwrap()).collect();
        assert!(expected.len() > 4000, "{}", expected.len());
        for c in LIKE_A_BLANK {
            assert!(expected.insert(c), "{c:?} is in the table for another reason");
        }
        let table: BTreeSet<char> = all.chars().filter(|c| is_invisible(*c)).collect();
        let differ: Vec<char> = expected.symmetric_difference(&table).copied().collect();
        assert!(differ.is_empty(), "{differ:?}");
    }

    #[test]
    fn the_table_is_sorted() {
        assert!(RANGES.iter().all(|(first, last)| first <= last));
        assert!(RANGES.windows(2).all(|pair| u32::from(pair[0].1) + 1 < u32::from(pair[1].0)));
    }

    /// A name with an invisible character never looks like the name without it.
    #[test]
    fn no_character_is_dropped_from_a_name() {
        for c in ('\0'..=char::MAX).filter(|c| is_invisible(*c)) {
            assert_eq!(clean(&format!("cp{c}-1")), "cp\u{fffd}-1", "{c:?}");
            assert_eq!(clean(&format!("cp-1{c}")), "cp-1\u{fffd}", "{c:?}");
        }
    }
}
