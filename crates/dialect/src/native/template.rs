//! Templates: values whose strings may be references, expressions, or text with expressions in it.

use serde_json::Value as Json;
use viat_engine::ir::{Expression, Part, Template};

use super::depth;
use super::fields::given;
use super::reader::Reader;
use super::reference;
use super::typed::{Compared, Filled, Use};
use crate::cel;
use crate::diagnostic::Span;
use crate::yaml::{Node, Value};

/// What the holes of a template say.
#[derive(Default)]
struct Holes {
    uses: Vec<Use>,
    compared: Vec<Compared>,
}

impl Reader<'_, '_> {
    /// A value in a template position.
    pub fn template(&mut self, node: &Node) -> Filled {
        let mut holes = Holes::default();
        let template = self.value(node, &mut holes);
        if depth::of_template(&template) > depth::MOST {
            self.too_deep(node.span);
        }
        Filled { template, uses: holes.uses, compared: holes.compared }
    }

    /// Refuses a value that could be stored and not be read again.
    pub fn too_deep(&mut self, span: Span) {
        self.report
            .error("too-deep", span, format!("values are nested too deep here: at most {} levels", depth::MOST - 1))
            .help("around a reference or an expression a list counts twice and a map three times; build the value up in several `set` entries");
    }

    /// A condition: `${…}`, a reference or a boolean.
    pub fn condition(&mut self, node: &Node, what: &str) -> Filled {
        let filled = self.template(node);
        match &filled.template {
            Template::Reference(_) | Template::Expression(_) | Template::Literal(Json::Bool(_)) => {}
            // What was reported already has become null.
            Template::Literal(Json::Null) if node.value != Value::Null => {}
            _ => {
                let help = match &node.value {
                    Value::String(text) if !text.contains("${") => format!("write {what}: {}", as_expression(text)),
                    _ => "there is no truthiness: compare, as in ${ inputs.n > 0 }".to_owned(),
                };
                self.report
                    .error("not-a-condition", node.span, format!("`{what}` takes an expression `${{ … }}`, a reference or a boolean, not {}", given(node)))
                    .help(help);
            }
        }
        filled
    }

    fn value(&mut self, node: &Node, holes: &mut Holes) -> Template {
        match &node.value {
            Value::String(text) => self.text(node, text, holes),
            Value::List(items) => {
                let made: Vec<Template> = items.iter().map(|item| self.value(item, holes)).collect();
                collapsed_list(made)
            }
            Value::Map(entries) => {
                let mut made = Vec::with_capacity(entries.len());
                for entry in entries {
                    if entry.key.contains("${") && !entry.key.contains('}') {
                        self.report
                            .error("unquoted-expression", entry.key_span, "this expression is cut in two: `: ` makes it the key of a map")
                            .help("quote it, as in \"${ a ? b : c }\"");
                    }
                    made.push((entry.key.clone(), self.value(&entry.value, holes)));
                }
                collapsed_map(made)
            }
            _ => match node.to_json() {
                Ok(value) => Template::Literal(value),
                Err(span) => {
                    self.report
                        .error("not-json", span, format!("`{}` is not a JSON value", node.shown()))
                        .help("write a finite number, or quote it to make it a string");
                    Template::Literal(Json::Null)
                }
            },
        }
    }

    fn text(&mut self, node: &Node, text: &str, holes: &mut Holes) -> Template {
        if let Some(found) = reference::parse(text) {
            holes.uses.push(Use { root: found.root.clone(), path: reference::fixed_path(&found), span: node.span, reference: true });
            return Template::Reference(found);
        }
        self.near_reference(node, text);
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        if text.starts_with("$$") && !text.starts_with("$${") {
            literal.push('$');
            at = 2;
        }
        while let Some(dollar) = text[at..].find('$').map(|found| at + found) {
            literal.push_str(&text[at..dollar]);
            let rest = &text[dollar..];
            if rest.starts_with("$${") {
                literal.push_str("${");
                at = dollar + 3;
            } else if rest.starts_with("${") {
                let Some(end) = self.expression(node, text, dollar + 2, holes) else { return Template::Literal(Json::Null) };
                if !literal.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                }
                parts.push(Part::Expression(Expression { language: cel::LANGUAGE.to_owned(), text: text[dollar + 2..end].trim().to_owned() }));
                at = end + 1;
            } else {
                literal.push('$');
                at = dollar + 1;
            }
        }
        literal.push_str(&text[at..]);
        if parts.is_empty() {
            return Template::Literal(literal.into());
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        match parts.as_slice() {
            [Part::Expression(only)] => Template::Expression(only.clone()),
            _ => Template::Text(parts),
        }
    }

    /// Checks the expression that begins at a byte of a string and gives the place of its `}`.
    fn expression(&mut self, node: &Node, text: &str, start: usize, holes: &mut Holes) -> Option<usize> {
        let end = match cel::end_of_expression(&text[start..]) {
            Ok(length) => start + length,
            Err(unclosed) => {
                self.unclosed(node, text, start, unclosed);
                return None;
            }
        };
        let inner = &text[start..end];
        match cel::parse(inner) {
            Ok(program) => {
                for found in program.names {
                    let place = cel::place(inner, &found.root, &found.path);
                    let span = self.within(node, start + place.start..start + place.end);
                    holes.uses.push(Use { root: found.root, path: found.path, span, reference: false });
                }
                for found in program.compared {
                    let place = cel::place_of_text(inner, &found.text).unwrap_or_else(|| cel::place(inner, &found.name.root, &found.name.path));
                    let span = self.within(node, start + place.start..start + place.end);
                    holes.compared.push(Compared { root: found.name.root, path: found.name.path, text: found.text, span });
                }
            }
            Err(error) => {
                let span = self.within(node, start + error.range.start..start + error.range.end);
                let complaint = self.report.error("bad-expression", span, error.message);
                if let Some(help) = error.help {
                    complaint.help(help);
                }
            }
        }
        Some(end)
    }

    fn unclosed(&mut self, node: &Node, text: &str, start: usize, unclosed: cel::Unclosed) {
        match unclosed {
            cel::Unclosed::Expression => {
                let span = self.within(node, start - 2..text.len());
                self.report
                    .error("unclosed-expression", span, "this `${` has no closing `}`")
                    .help("close it, or write `$${` for a literal `${`; if a `#` or `: ` stands in it, quote the whole string");
            }
            cel::Unclosed::String(at) => {
                let span = self.within(node, start + at..text.len());
                self.report.error("unclosed-expression", span, "a string that begins here in the expression is not closed");
            }
        }
    }

    /// The place of a part of a string: exact if the file has the string as it reads, the whole string otherwise.
    fn within(&self, node: &Node, range: std::ops::Range<usize>) -> Span {
        match (node.place_of(range.start), node.place_of(range.end)) {
            (Some(start), Some(end)) => self.report.source.span(start..end),
            _ => node.span,
        }
    }

    /// A string that begins as a reference and goes on otherwise is literal text; without a blank in it that is rarely meant.
    fn near_reference(&mut self, node: &Node, text: &str) {
        let Some(rest) = text.strip_prefix('$') else { return };
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let named = rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && rest[length..].starts_with(['.', '[']);
        if named && rest.len() > length + 1 && !text.contains(char::is_whitespace) {
            self.report
                .warning("literal-text", node.span, format!("`{}` is not a reference, so it is literal text", crate::yaml::shortened(text)))
                .help("keys with other characters are written [\"odd-key\"]; begin with `$$` if the text is meant");
        }
    }
}

fn collapsed_list(items: Vec<Template>) -> Template {
    if !items.iter().all(|item| matches!(item, Template::Literal(_))) {
        return Template::List(items);
    }
    let values = items.into_iter().filter_map(|item| if let Template::Literal(value) = item { Some(value) } else { None });
    Template::Literal(Json::Array(values.collect()))
}

fn collapsed_map(entries: Vec<(String, Template)>) -> Template {
    if !entries.iter().all(|(_, value)| matches!(value, Template::Literal(_))) {
        return Template::Map(entries);
    }
    let values = entries.into_iter().filter_map(|(key, value)| if let Template::Literal(value) = value { Some((key, value)) } else { None });
    Template::Literal(Json::Object(values.collect()))
}

/// What was written as text, as the expression that was meant: without the `$` of references, and quoted.
fn as_expression(text: &str) -> String {
    let mut names = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(each) = characters.next() {
        let opens_a_name = characters.peek().is_some_and(|next| next.is_ascii_alphabetic() || *next == '_');
        if each != '$' || !opens_a_name {
            names.push(each);
        }
    }
    let quote = if names.contains('"') { '\'' } else { '"' };
    format!("{quote}${{ {names} }}{quote}")
}
