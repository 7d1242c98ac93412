use super::*;

/// A mutant at the first occurrence of `code`.
fn mutant(source: &str, genre: Genre, code: &str, replacement: &str) -> Mutant {
    let start = source.find(code).unwrap();
    let place = |at: usize| {
        let before = &source[..at];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    };
    Mutant {
        file: "src/a.rs".to_owned(),
        name: "src/a.rs:1:1: a change".to_owned(),
        genre,
        replacement: replacement.to_owned(),
        span: Span { start: place(start), end: place(start + code.len()) },
        key: String::new(),
    }
}

fn outcome(source: &str, mutants: &[(Genre, &str, &str)]) -> Outcome {
    let mutants: Vec<Mutant> =
        mutants.iter().map(|(genre, code, replacement)| mutant(source, *genre, code, replacement)).collect();
    let mutants: Vec<(usize, &Mutant)> = mutants.iter().enumerate().collect();
    weave(source, &mutants).unwrap()
}

fn woven(source: &str, mutants: &[(Genre, &str, &str)]) -> String {
    let outcome = outcome(source, mutants);
    assert!(outcome.alone.is_empty() && outcome.unviable.is_empty());
    syn::parse_file(&outcome.woven.text).unwrap();
    outcome.woven.text.replace("crate::mutant::", "")
}

use Genre::{ArmOutcome, BinaryOperator, FnValue, MatchArm, MatchArmGuard, StructField, UnaryOperator};

#[test]
fn values_of_functions() {
    assert_eq!(
        woven("fn f() -> u8 { 3 }", &[(FnValue, "3", "0"), (FnValue, "3", "1")]),
        "fn f() -> u8 { if on(0) { return 0; } if on(1) { return 1; } 3 }"
    );
    assert_eq!(
        woven(
            "fn f() -> impl Iterator<Item = u8> { g() }",
            &[(FnValue, "g()", "empty()"), (FnValue, "g()", "once(0)")]
        ),
        "fn f() -> impl Iterator<Item = u8> { if on(0) { return Either::Right(Either::Left(empty())); } \
         if on(1) { return Either::Right(Either::Right(once(0))); } Either::Left((move || { g() })())}"
    );
}

#[test]
fn operators_within_operators() {
    assert_eq!(
        woven(
            "fn f() { !a == b && c }",
            &[(UnaryOperator, "!", ""), (BinaryOperator, "==", "!="), (BinaryOperator, "&&", "||")]
        ),
        "fn f() { ((((((((!a) ^ on(0)) == b) ^ on(1))) ^ on(2)) && ((c) ^ on(2))) ^ on(2)) }"
    );
    assert_eq!(
        woven("fn f() { a + 1 < b }", &[(BinaryOperator, "+", "-"), (BinaryOperator, "<", ">")]),
        "fn f() { ordered(&((match ((a ), ( 1)) { (left, right) => if on(0) { left - right } else { left + right } }) ), \
         \"<\", &( b), &[(1, \">\")]) }"
    );
    assert_eq!(
        woven("fn f() { a.b += c; }", &[(BinaryOperator, "+=", "-=")]),
        "fn f() { match (c) { right => if on(0) { a.b -= right } else { a.b += right } }; }"
    );
}

#[test]
fn arms_and_guards() {
    assert_eq!(
        woven(
            "fn f() { match a { 1 => b, 2 if c => d, _ => e } }",
            &[
                (MatchArm, "1", ""),
                (MatchArm, "2", ""),
                (MatchArmGuard, "c =", "true"),
                (MatchArmGuard, "c =", "false")
            ]
        ),
        "fn f() { match a { 1 if !on(0) => b, 2 if (on(2) || (c)) && !on(3) && !on(1) => d, _ => e } }"
    );
}

#[test]
fn outcomes_of_arms() {
    assert_eq!(
        woven("fn f() { match a { A => b, B => { c } } }", &[(ArmOutcome, "b, ", "{ c }"), (ArmOutcome, "{ c }", "b")]),
        "fn f() { match a { A => if on(0) { { c } } else { b }, B => if on(1) { b } else { { c } } } }"
    );
}

#[test]
fn fields_that_their_base_has() {
    assert_eq!(
        woven("fn f() { A { b: c, ..d } }", &[(StructField, "b: c", "")]),
        "fn f() { A { b: if on(0) { d.b } else { c }, ..d } }"
    );
    assert_eq!(
        woven("fn f() { A { b, ..d() } }", &[(StructField, "b, ", "")]),
        "fn f() { (match d() { base => A { b: if on(0) { base.b } else { b }, ..base } }) }"
    );
}

#[test]
fn closures_of_constants() {
    assert_eq!(
        woven("const F: fn(u8) -> bool = |it| it == 1;", &[(BinaryOperator, "==", "!=")]),
        "const F: fn(u8) -> bool = |it| ((it == 1) ^ on(0));"
    );
}

#[test]
fn what_a_switch_cannot_express() {
    assert_eq!(outcome("const A: u8 = 1 + 2;", &[(BinaryOperator, "+", "-")]).alone, BTreeSet::from([0]));
    assert_eq!(outcome("const fn f() -> u8 { 3 }", &[(FnValue, "3", "0")]).alone, BTreeSet::from([0]));
    assert_eq!(outcome("fn f() { match a { 1 => b, 2 => c } }", &[(MatchArm, "2", "")]).alone, BTreeSet::from([0]));
    let named = outcome("fn f() { match a { 1 => b, other => c } }", &[(MatchArm, "other", "")]);
    assert_eq!(named.alone, BTreeSet::from([0]));
    let chain = outcome("fn f() { if let Some(a) = b && c {} }", &[(BinaryOperator, "&&", "||")]);
    assert_eq!(chain.unviable, BTreeSet::from([0]));
}

#[test]
fn complaints_find_their_mutant() {
    let source = "fn f() -> u8 { a + b }";
    let woven = outcome(source, &[(FnValue, "a", "0"), (BinaryOperator, "+", "-"), (BinaryOperator, "+", "*")]).woven;
    let at = |text: &str| {
        let start = woven.text.find(text).unwrap();
        woven.mutants_at(&(start..start + text.len()))
    };
    assert_eq!(at("return 0"), [0]);
    assert_eq!(at("left * right"), [2]);
    assert_eq!(at("left + right"), [1, 2]);
    assert!(at("-> u8").is_empty());
}

#[test]
fn one_mutant_alone() {
    let source = "fn f() {\n    ä() == b\n}";
    let mutant = mutant(source, BinaryOperator, "==", "!=");
    assert_eq!(alone(source, &mutant).unwrap(), "fn f() {\n    ä() != b\n}");
}
