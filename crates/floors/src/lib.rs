//! Enforces the directions in which the rooms of a crate, its top-level modules, may use each other. For the tests of crates that are
//! structured like this.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ROOT: &str = "crate::";

/// Returns the violations of the table in `src`, as `file:line: room X may not use room Y`. The table lists each room with the rooms that
/// it may use; `main.rs` and `lib.rs` are rooms, too. Tests may use everything.
///
/// The check is based on text: paths that begin with `crate::`, or with enough `super::` to reach the root. It does not see the output of
/// macros, nor a room behind an item's name that the root of the crate exports.
///
/// # Panics
/// If the files cannot be read.
#[must_use]
pub fn violations(src: &Path, table: &[(&str, &[&str])]) -> Vec<String> {
    violations_within(src, "", table)
}

/// Returns the violations within one of the rooms: the rooms are then its modules, and its `mod.rs` is the room `mod`.
///
/// # Panics
/// If the files cannot be read.
#[must_use]
pub fn violations_within(src: &Path, parent: &str, table: &[(&str, &[&str])]) -> Vec<String> {
    let table: BTreeMap<_, _> = table.iter().copied().collect();
    let folder = src.join(parent);
    let inside = if parent.is_empty() { ROOT.to_owned() } else { format!("{ROOT}{parent}::") };
    let mut files = BTreeMap::new();
    read(&folder, &folder, &mut files);
    let tests: Vec<_> = files.iter().flat_map(|(file, text)| test_modules(file, text)).collect();
    files.retain(|file, _| !tests.iter().any(|module| file.with_extension("").starts_with(module)));

    let mut found = Vec::new();
    for (file, text) in &files {
        let shown = Path::new(parent).join(file);
        let module = module(file);
        let room = module.iter().next().unwrap_or(file.file_stem().unwrap()).to_str().unwrap();
        let Some(allowed) = table.get(room) else {
            found.push(format!("{}:1: room {room} is not in the table", shown.display()));
            continue;
        };
        let text = without_tests(text);
        for (at, used) in uses(&text, &inside, module.iter().count(), |name| table.contains_key(name)) {
            if used != room && !allowed.contains(&used) {
                let line = text[..at].matches('\n').count() + 1;
                found.push(format!("{}:{line}: room {room} may not use room {used}", shown.display()));
            }
        }
    }
    found
}

/// Collects all source files by their path below `src`: code only, with line numbers intact.
fn read(src: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(src, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = code(&std::fs::read_to_string(&path).unwrap());
            files.insert(path.strip_prefix(src).unwrap().to_owned(), text);
        }
    }
}

/// Returns the module of a file: `net/mod.rs` is `net`, `net/tls.rs` is `net/tls`, and the root of the crate is empty.
fn module(file: &Path) -> PathBuf {
    let module = file.with_extension("");
    let is_root = module == Path::new("lib") || module == Path::new("main");
    if is_root || module.ends_with("mod") { module.with_file_name("") } else { module }
}

/// Replaces comments and quoted text with blanks.
fn code(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let raw = rest.strip_prefix('r').map(|behind| behind.trim_start_matches('#'));
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(inner) = raw.filter(|inner| inner.starts_with('"') && !out.ends_with(is_of_name)) {
            let quotes = rest.len() - inner.len();
            let close = format!("\"{}", "#".repeat(quotes - 1));
            inner[1..].find(&close).map_or(rest.len(), |end| quotes + 1 + end + close.len())
        } else if first == '"' {
            quoted(rest, '"')
        } else if rest.starts_with("'\\") || first == '\'' && rest.chars().nth(2) == Some('\'') {
            quoted(rest, '\'')
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        out.extend(rest[..length].chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
        rest = &rest[length..];
    }
    out
}

/// Returns the length of the literal at the beginning of the text.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        if char == quote && !escaped {
            return at + 1;
        }
        escaped = char == '\\' && !escaped;
    }
    text.len()
}

fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

const TEST: &str = "#[cfg(test)]";

/// Returns the test-only modules that are in separate files.
fn test_modules(file: &Path, text: &str) -> Vec<PathBuf> {
    let items = text.split(TEST).skip(1).filter_map(|behind| {
        let declared = behind.split_once(';')?.0.trim_start();
        let name = declared.split_once("mod ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"))?.1;
        name.chars().all(is_of_name).then(|| module(file).join(name))
    });
    items.collect()
}

/// Replaces items for tests with blanks.
fn without_tests(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(TEST) {
        let (code, item) = rest.split_at(at);
        let mut depth = 0;
        let end = item.char_indices().find(|(_, char)| {
            match char {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            // The end of an item, or of the item around it.
            depth < 0 || depth == 0 && matches!(char, ';' | '}')
        });
        let (item, behind) = item.split_at(end.map_or(item.len(), |(end, _)| end + 1));
        out.push_str(code);
        out.extend(item.chars().map(|char| if char == '\n' { '\n' } else { ' ' }));
        rest = behind;
    }
    out + rest
}

/// Returns the rooms that the code names, with positions, in a module at this depth below the root. Modules within the file are deeper, so
/// only names of rooms count after `super::`.
fn uses<'a>(text: &'a str, inside: &str, depth: usize, is_room: impl Fn(&str) -> bool) -> Vec<(usize, &'a str)> {
    let above = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in [inside, above.as_str()].into_iter().filter(|prefix| !prefix.is_empty()) {
        for (at, _) in text.match_indices(prefix) {
            // `super::super::` leads there only if it is the whole prefix.
            if text[..at].ends_with(|before| is_of_name(before) || before == ':') {
                continue;
            }
            let start = at + prefix.len();
            let named = match text[start..].strip_prefix('{') {
                Some(group) => names(group).into_iter().map(|(at, name)| (start + 1 + at, name)).collect(),
                None => vec![(start, name(&text[start..]))],
            };
            found.extend(named.into_iter().filter(|(_, name)| prefix == ROOT || is_room(name)));
        }
    }
    found.retain(|(_, name)| !name.is_empty());
    found.sort_unstable();
    found
}

fn name(text: &str) -> &str {
    text.split(|char| !is_of_name(char)).next().unwrap_or_default()
}

/// Returns the first name of each path in a group whose brace has been opened.
fn names(group: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let (mut depth, mut begins) = (0, true);
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins && is_of_name(char) => {
                found.push((at, name(&group[at..])));
                begins = false;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
        let src = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = src.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        src
    }

    fn violations_of(files: &[(&str, &str)]) -> Vec<String> {
        violations(written(files).path(), &[("main", &["roof"]), ("roof", &["ground"]), ("ground", &[])])
    }

    #[test]
    fn what_goes_upwards_is_told_with_its_line() {
        let found = violations_of(&[
            ("main.rs", "mod ground;\nmod roof;\nuse crate::roof::Tiles;\nfn main() { crate::ground::dig() }\n"),
            ("roof/mod.rs", "use crate::ground::{Stone, mud};\nuse super::main;\nmod a { use super::Tiles; }\n"),
            ("roof/tiles.rs", "use super::super::ground::Stone;\nuse super::main;\nuse super::super::super::x;\n"),
            (
                "ground.rs",
                "\nuse crate::{\n    ground::Stone, roof::{a, b},\n    main\n};\n\nfn dig<'a>(x: &'a crate::roof::A) {}\n",
            ),
            ("attic.rs", ""),
        ]);
        let expected = [
            "attic.rs:1: room attic is not in the table",
            "ground.rs:3: room ground may not use room roof",
            "ground.rs:4: room ground may not use room main",
            "ground.rs:7: room ground may not use room roof",
            "main.rs:4: room main may not use room ground",
            "roof/mod.rs:2: room roof may not use room main",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_room_has_rooms_of_its_own() {
        let src = written(&[
            ("roof/mod.rs", "use tiles::Tile;\nuse crate::ground::Stone;\nuse crate::roof::beams;\n"),
            ("roof/beams.rs", "use crate::roof::{Roof, tiles};\nuse super::tiles::Tile;\n"),
            ("roof/tiles/mod.rs", "use super::beams;\nuse crate::roof::beams::Beam;\n"),
            ("roof/tiles/clay.rs", "use super::super::beams;\nuse super::beams;\n"),
            ("ground.rs", "use crate::roof::tiles;\n"),
        ]);
        let found =
            violations_within(src.path(), "roof", &[("beams", &["tiles"]), ("mod", &["beams"]), ("tiles", &[])]);
        let expected = [
            "roof/tiles/clay.rs:1: room tiles may not use room beams",
            "roof/tiles/mod.rs:1: room tiles may not use room beams",
            "roof/tiles/mod.rs:2: room tiles may not use room beams",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn tests_comments_and_texts_are_no_uses() {
        let text = r##"
//! See crate::roof.
/* crate::roof */
const TEXTS: [&str; 3] = ["\"crate::roof", r#"a " crate::roof"#, "//"]; // crate::roof
const CHARS: [char; 3] = ['"', '\'', '\\'];
#[cfg(test)]
use crate::roof::{A, B};
#[cfg(test)]
mod own;
pub(in crate::ground) fn ours() {}
#[cfg(test)]
#[allow(dead_code)]
fn array(of: [u8; 2]) { crate::roof::a() }
#[cfg(test)]
mod tests {
    use crate::roof;
    fn a() {}
}
fn last() { crate::roof::a() }
"##;
        let found = violations_of(&[
            ("ground/mod.rs", text),
            ("ground/own.rs", "use crate::roof;\n"),
            ("ground/own/deep.rs", "use crate::roof;\n"),
            ("ground/stone.rs", "#[cfg(test)]\npub(crate) mod own;\n"),
            ("ground/stone/own.rs", "use crate::roof;\n"),
        ]);
        assert_eq!(found, ["ground/mod.rs:19: room ground may not use room roof"]);
    }
}
