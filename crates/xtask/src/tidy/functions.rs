//! No function is longer than a screen; those that are have their names on a list that only shrinks.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Source;

/// The longest that a function may be, in lines, from its first word to its last brace.
const LINES: usize = 70;

struct Long {
    name: String,
    line: usize,
    lines: usize,
}

pub(super) fn check(sources: &[Source], exceptions: &str) -> Vec<String> {
    let listed: BTreeSet<&str> = exceptions.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let (mut problems, mut used) = (Vec::new(), BTreeSet::new());
    for Source { path, text } in sources {
        let long = match long_functions(text) {
            Ok(long) => long,
            Err(error) => {
                problems.push(format!("{path}: cannot be read as Rust: {error}"));
                continue;
            }
        };
        for Long { name, line, lines } in long {
            match listed.get(format!("{path} {name}").as_str()) {
                Some(exception) => drop(used.insert(*exception)),
                None => problems.push(format!("{path}:{line}: function {name} has {lines} lines, the most is {LINES}")),
            }
        }
    }
    let stale = listed.difference(&used).map(|left| format!("tidy-exceptions.txt: {left} is no longer too long: take it off the list"));
    problems.extend(stale);
    problems
}

fn long_functions(text: &str) -> syn::Result<Vec<Long>> {
    let mut found = Finder { long: Vec::new() };
    found.visit_file(&syn::parse_file(text)?);
    Ok(found.long)
}

struct Finder {
    long: Vec<Long>,
}

impl Finder {
    fn look(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let (line, end) = (signature.span().start().line, block.span().end().line);
        let lines = end + 1 - line;
        if lines > LINES {
            self.long.push(Long { name: signature.ident.to_string(), line, lines });
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.look(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.look(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.look(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(lines: usize) -> Vec<Source> {
        vec![Source { path: "a.rs".to_owned(), text: format!("//! A.\nfn long() {{\n{}}}\n", "    x();\n".repeat(lines - 2)) }]
    }

    #[test]
    fn seventy_lines_are_enough() {
        assert!(check(&source(70), "").is_empty());
        assert_eq!(check(&source(71), "").len(), 1);
    }

    #[test]
    fn the_list_of_exceptions_only_shrinks() {
        assert!(check(&source(71), "# why\na.rs long\n").is_empty());
        assert_eq!(check(&source(70), "a.rs long\n").len(), 1);
    }
}
