//! The source of each fact, and the rights that it requires: users grant rights by this table. The checks before each check.

use std::fmt::Write as _;

use crate::checks::{ALL, facts};

#[test]
fn what_is_asked_and_who_may_ask() {
    let mut text = String::new();
    for fact in facts(ALL) {
        writeln!(text, "{fact:?}: {}; {:?}; {:?}", fact.reads(), fact.right(), fact.role()).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn which_checks_stand_before_each() {
    let mut text = String::new();
    for check in ALL {
        writeln!(text, "{}: requires {:?}; after {:?}", check.id, check.requires(), check.after()).unwrap();
    }
    insta::assert_snapshot!(text);
}
