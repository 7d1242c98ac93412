//! Writes all mutants of a file into it, each behind a switch.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use anyhow::{Context as _, bail};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, BinOp, Block, Expr, ExprBinary, ExprMatch, ExprStruct, ExprUnary, Member, Pat, ReturnType, Signature, Type,
    UnOp,
};

use crate::list::{Genre, Mutant, Place, Span};
use crate::text::{Edits, Woven, piece};

/// A file that contains its mutants.
pub(crate) struct Outcome {
    pub(crate) woven: Woven,
    /// Mutants that cannot be put behind a switch.
    pub(crate) alone: BTreeSet<usize>,
    /// Mutants that the compiler does not accept.
    pub(crate) unviable: BTreeSet<usize>,
}

/// Weaves `mutants`, given with their ids, into the source.
pub(crate) fn weave(source: &str, mutants: &[(usize, &Mutant)]) -> anyhow::Result<Outcome> {
    let file = syn::parse_file(source)?;
    let lines = Lines::new(source);
    let mut weaver = Weaver {
        source,
        mutants: mutants.iter().copied().collect(),
        wanted: HashMap::new(),
        edits: Edits::default(),
        depth: 0,
        constant: false,
        alone: BTreeSet::new(),
        unviable: BTreeSet::new(),
    };
    for (id, mutant) in mutants {
        let start = lines.offset(mutant.span.start).with_context(|| mutant.name.clone())?;
        weaver.wanted.entry((mutant.genre, start)).or_default().push(*id);
    }
    weaver.visit_file(&file);
    if let Some(id) = weaver.wanted.values().flatten().next() {
        bail!("nothing is where this mutant should be: {}", weaver.mutants[id].name);
    }
    let covered = weaver.edits.leave_out_covered();
    weaver.alone.extend(covered);
    Ok(Outcome { woven: weaver.edits.apply(source), alone: weaver.alone, unviable: weaver.unviable })
}

/// Returns the file with only this mutant, without a switch.
pub(crate) fn alone(source: &str, mutant: &Mutant) -> anyhow::Result<String> {
    let range = Lines::new(source).range(mutant.span).with_context(|| mutant.name.clone())?;
    Ok(format!("{}{}{}", &source[..range.start], mutant.replacement, &source[range.end..]))
}

struct Lines<'a> {
    source: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(source: &'a str) -> Self {
        let starts = std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { source, starts }
    }

    fn offset(&self, place: Place) -> Option<usize> {
        let start = *self.starts.get(place.line - 1)?;
        let mut characters = self.source[start..].char_indices().map(|(at, _)| start + at);
        characters.nth(place.column - 1).or((place.column == 1).then_some(start))
    }

    fn range(&self, span: Span) -> Option<Range<usize>> {
        Some(self.offset(span.start)?..self.offset(span.end)?)
    }
}

fn range(node: &impl Spanned) -> Range<usize> {
    node.span().byte_range()
}

fn on(id: usize) -> String {
    format!("crate::mutant::on({id})")
}

/// Returns ` && !ON` for each mutant.
fn unless(ids: &[usize]) -> String {
    ids.iter().map(|id| format!(" && !{}", on(*id))).collect::<Vec<_>>().concat()
}

/// Returns `if ON { … } else if ON { … } else { ORIGINAL }`.
fn choice(ids: &[usize], chosen: impl Fn(usize) -> String, original: &str) -> Vec<(String, Option<usize>)> {
    let mut pieces = Vec::new();
    for id in ids {
        pieces.push((format!("if {} {{ ", on(*id)), None));
        pieces.push((chosen(*id), Some(*id)));
        pieces.push((" } else ".to_owned(), None));
    }
    pieces.push((format!("{{ {original} }}"), None));
    pieces
}

struct Weaver<'a> {
    source: &'a str,
    mutants: HashMap<usize, &'a Mutant>,
    /// The remaining mutants, by genre and start position; empty at the end.
    wanted: HashMap<(Genre, usize), Vec<usize>>,
    edits: Edits,
    depth: usize,
    /// Whether the current code is evaluated by the compiler, where switches do not work.
    constant: bool,
    alone: BTreeSet<usize>,
    unviable: BTreeSet<usize>,
}

impl Weaver<'_> {
    fn take(&mut self, genre: Genre, start: usize) -> Vec<usize> {
        let ids = self.wanted.remove(&(genre, start)).unwrap_or_default();
        if self.constant {
            self.alone.extend(ids);
            return Vec::new();
        }
        ids
    }

    fn replacement(&self, id: usize) -> &str {
        &self.mutants[&id].replacement
    }

    fn text(&self, node: &impl Spanned) -> &str {
        &self.source[range(node)]
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        let outer = std::mem::replace(&mut self.constant, signature.constness.is_some());
        self.value(signature, block);
        self.depth += 1;
        visit::visit_block(self, block);
        self.depth -= 1;
        self.constant = outer;
    }

    /// Replaces the whole body of a function.
    fn value(&mut self, signature: &Signature, block: &Block) {
        let Some(first) = block.stmts.first() else { return };
        let ids = self.take(Genre::FnValue, range(first).start);
        if ids.is_empty() {
            return;
        }
        let site = self.edits.site(self.depth, &ids);
        let braces = block.brace_token.span;
        let (start, end) = (braces.open().byte_range().end, braces.close().byte_range().start);
        let hidden = matches!(&signature.output, ReturnType::Type(_, kind) if matches!(**kind, Type::ImplTrait(_)));
        let mut pieces = Vec::new();
        for (index, id) in ids.iter().enumerate() {
            let value = self.replacement(*id);
            let value = if hidden { either(value, index, ids.len()) } else { value.to_owned() };
            pieces.push((format!(" if {} {{ return {value}; }}", on(*id)), Some(*id)));
        }
        if hidden {
            // The compiler reports an error at this position if the replacement does not implement the trait.
            self.edits.open(site, range(&signature.output).start, Vec::new());
            pieces.push((" crate::mutant::Either::Left((move || {".to_owned(), None));
            self.edits.close(site, end, piece("})())"));
        }
        self.edits.open(site, start, pieces);
    }

    fn binary(&mut self, binary: &ExprBinary) {
        let operator = range(&binary.op);
        let ids = self.take(Genre::BinaryOperator, operator.start);
        if ids.is_empty() {
            return;
        }
        let (left, right) = (range(&binary.left), range(&binary.right));
        let (start, end) = (left.start, right.end);
        let sign = &self.source[operator.clone()];
        let replacements: HashMap<usize, String> =
            ids.iter().map(|id| (*id, self.replacement(*id).to_owned())).collect();
        let apply = |left: &str, id: usize| format!("{left} {} right", replacements[&id]);
        match binary.op {
            BinOp::And(_) | BinOp::Or(_) if has_let(&binary.left) || has_let(&binary.right) => {
                self.unviable.extend(ids);
            }
            BinOp::And(_) | BinOp::Or(_) => {
                // De Morgan's laws: each operand is written once, and evaluated at most once.
                let site = self.edits.site(self.depth, &ids);
                let flip = format!(" ^ {}", on(ids[0]));
                self.edits.open(site, start, piece("(((("));
                self.edits.close(site, left.end, piece(format!("){flip})")));
                self.edits.open(site, right.start, piece("(("));
                self.edits.close(site, end, piece(format!("){flip})){flip})")));
            }
            BinOp::Eq(_) | BinOp::Ne(_) => {
                let site = self.edits.site(self.depth, &ids);
                self.edits.open(site, start, piece("(("));
                self.edits.close(site, end, piece(format!(") ^ {})", on(ids[0]))));
            }
            BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => {
                let site = self.edits.site(self.depth, &ids);
                let others: Vec<String> = ids.iter().map(|id| format!("({id}, \"{}\")", replacements[id])).collect();
                self.edits.open(site, start, piece("crate::mutant::ordered(&("));
                let between = format!("), \"{sign}\", &(");
                self.edits.replace(site, operator, between);
                self.edits.close(site, end, piece(format!("), &[{}])", others.join(", "))));
            }
            BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) => {
                let site = self.edits.site(self.depth, &ids);
                let place = self.text(&binary.left).to_owned();
                let mut pieces = piece(") { right => ");
                pieces.extend(choice(&ids, |id| apply(&place, id), &format!("{place} {sign} right")));
                pieces.extend(piece(" }"));
                self.edits.replace(site, start..right.start, "match (");
                self.edits.close(site, end, pieces);
            }
            _ => {
                let site = self.edits.site(self.depth, &ids);
                let mut pieces = piece(")) { (left, right) => ");
                pieces.extend(choice(&ids, |id| apply("left", id), &format!("left {sign} right")));
                pieces.extend(piece(" })"));
                self.edits.open(site, start, piece("(match (("));
                self.edits.replace(site, operator, "), (");
                self.edits.close(site, end, pieces);
            }
        }
    }

    fn unary(&mut self, unary: &ExprUnary) {
        let operator = range(&unary.op);
        let ids = self.take(Genre::UnaryOperator, operator.start);
        let Some(id) = ids.first() else { return };
        let site = self.edits.site(self.depth, &ids);
        let end = range(&unary.expr).end;
        if matches!(unary.op, UnOp::Not(_)) {
            self.edits.open(site, operator.start, piece("(("));
            self.edits.close(site, end, piece(format!(") ^ {})", on(*id))));
        } else {
            self.edits.replace(site, operator, "(match (");
            self.edits.close(site, end, piece(format!(") {{ it => if {} {{ it }} else {{ -it }} }})", on(*id))));
        }
    }

    /// Leaves deletions of required arms to separate builds: an arm behind a switch does not count for the exhaustiveness check.
    fn needed_arms(&mut self, it: &ExprMatch) {
        let takes_all = |arm: &Arm| arm.guard.is_none() && matches!(arm.pat, Pat::Wild(_) | Pat::Ident(_));
        let is_covered = it.arms.iter().any(takes_all);
        let is_needed = |arm: &&Arm| arm.guard.is_none() && (!is_covered || takes_all(arm));
        for arm in it.arms.iter().filter(is_needed) {
            let ids = self.take(Genre::MatchArm, range(arm).start);
            self.alone.extend(ids);
        }
    }

    fn arm(&mut self, arm: &Arm) {
        self.outcome(arm);
        let deleted = self.take(Genre::MatchArm, range(arm).start);
        let Some((_, guard)) = &arm.guard else {
            if !deleted.is_empty() {
                let site = self.edits.site(self.depth, &deleted);
                let never = unless(&deleted);
                self.edits.close(site, range(&arm.pat).end, piece(format!(" if {}", never.trim_start_matches(" && "))));
            }
            return;
        };
        let guard = range(guard);
        let forced = self.take(Genre::MatchArmGuard, guard.start);
        let (always, never): (Vec<usize>, Vec<usize>) = forced.iter().partition(|id| self.replacement(**id) == "true");
        let all: Vec<usize> = forced.iter().chain(&deleted).copied().collect();
        if all.is_empty() {
            return;
        }
        let site = self.edits.site(self.depth, &all);
        let always = always.iter().map(|id| format!("{} || ", on(*id))).collect::<Vec<_>>().concat();
        self.edits.open(site, guard.start, piece(format!("({always}(")));
        let never: Vec<usize> = never.into_iter().chain(deleted).collect();
        self.edits.close(site, guard.end, piece(format!(")){}", unless(&never))));
    }

    /// Replaces the result of an arm.
    fn outcome(&mut self, arm: &Arm) {
        let body = range(&arm.body);
        let ids = self.take(Genre::ArmOutcome, body.start);
        let Some(id) = ids.first() else { return };
        let site = self.edits.site(self.depth, &ids);
        let other = self.replacement(*id).to_owned();
        let mut pieces = piece(format!("if {} {{ ", on(*id)));
        pieces.push((other, Some(*id)));
        pieces.extend(piece(" } else { "));
        self.edits.open(site, body.start, pieces);
        self.edits.close(site, body.end, piece(" }"));
    }

    /// Replaces fields with the base's values.
    fn fields(&mut self, literal: &ExprStruct) {
        let fields = literal.fields.iter().map(|field| (range(field), field));
        let fields: Vec<_> = fields.map(|(range, field)| (self.take(Genre::StructField, range.start), field)).collect();
        let Some(base) = &literal.rest else { return };
        let whole = range(literal);
        // A base that is not just a name is evaluated once, before the fields.
        let base_text = if matches!(**base, Expr::Path(_)) { self.text(base).to_owned() } else { "base".to_owned() };
        let all: Vec<usize> = fields.iter().flat_map(|(ids, _)| ids.clone()).collect();
        if all.is_empty() {
            return;
        }
        let site = self.edits.site(self.depth, &all);
        if base_text == "base" {
            let text = self.text(base).to_owned();
            self.edits.open(site, whole.start, piece(format!("(match {text} {{ base => ")));
            self.edits.replace(site, range(base), "base");
            self.edits.close(site, whole.end, piece(" })"));
        }
        for (ids, field) in fields {
            let (Some(id), Member::Named(name)) = (ids.first(), &field.member) else { continue };
            let value = range(&field.expr);
            let label = if field.colon_token.is_some() { String::new() } else { format!("{name}: ") };
            let inner = self.edits.site(self.depth, &[*id]);
            self.edits.open(
                inner,
                value.start,
                piece(format!("{label}if {} {{ {base_text}.{name} }} else {{ ", on(*id))),
            );
            self.edits.close(inner, value.end, piece(" }"));
        }
    }
}

/// Returns the replacement at this index, as a value of the same type as the others.
fn either(value: &str, index: usize, count: usize) -> String {
    let mut value = if index + 1 < count { format!("crate::mutant::Either::Left({value})") } else { value.to_owned() };
    for _ in 0..=index {
        value = format!("crate::mutant::Either::Right({value})");
    }
    value
}

/// Returns whether the operand contains `let`, which is only allowed in a chain of `&&`.
fn has_let(operand: &Expr) -> bool {
    match operand {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Weaver<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        let outer = std::mem::replace(&mut self.constant, true);
        visit::visit_item_const(self, item);
        self.constant = outer;
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        let outer = std::mem::replace(&mut self.constant, true);
        visit::visit_item_static(self, item);
        self.constant = outer;
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        let outer = std::mem::replace(&mut self.constant, true);
        visit::visit_impl_item_const(self, item);
        self.constant = outer;
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        self.depth += 1;
        match expression {
            Expr::Binary(binary) => self.binary(binary),
            Expr::Unary(unary) => self.unary(unary),
            Expr::Struct(literal) => self.fields(literal),
            Expr::Match(it) => self.needed_arms(it),
            _ => {}
        }
        // A closure is an ordinary function, even as the value of a constant.
        let constant = self.constant && !matches!(expression, Expr::Closure(_));
        let outer = std::mem::replace(&mut self.constant, constant);
        visit::visit_expr(self, expression);
        self.constant = outer;
        self.depth -= 1;
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.depth += 1;
        self.arm(arm);
        visit::visit_arm(self, arm);
        self.depth -= 1;
    }
}

#[cfg(test)]
mod tests;
