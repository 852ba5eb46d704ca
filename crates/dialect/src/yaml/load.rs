//! Builds the tree from the parser's events, under bounds.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span as Marks, StrInput, Tag};

use super::{Entry, MOST_BYTES, MOST_DEPTH, MOST_NODES, MOST_TEXT, Node, Value, scalar};
use crate::diagnostic::{Report, Span};

/// Reads the one document of a text; what is wrong goes to the report.
pub fn load(report: &mut Report<'_>) -> Option<Node> {
    let text = report.source.text;
    if text.len() > MOST_BYTES {
        let here = report.source.span(0..0);
        report.error("too-large", here, format!("the document has {} bytes; at most {MOST_BYTES} (1 MiB) are allowed", text.len()));
        return None;
    }
    if let Some(at) = text.find('\0') {
        let here = report.source.span(at..at + 1);
        report.error("not-text", here, "the file contains a NUL character; a workflow is a text file");
        return None;
    }
    let offset = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let body = &text[offset..];
    if body.lines().all(|line| matches!(line.trim_start().as_bytes().first(), None | Some(b'#'))) {
        let here = report.source.span(0..0);
        report.error("empty", here, "the file is empty").help("a workflow needs at least `steps:` with one entry");
        return None;
    }
    let places = Places::new(body, offset);
    let mut loader =
        Loader { parser: Parser::new_from_str(body), report, places, text: body, offset, anchors: BTreeMap::new(), nodes: 0, bytes: 0, failed: false };
    loader.document()
}

/// Turns the parser's character indices into bytes.
struct Places {
    /// Byte offsets of characters; empty when every character is one byte.
    bytes: Vec<usize>,
    offset: usize,
}

impl Places {
    fn new(text: &str, offset: usize) -> Places {
        let bytes = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).chain([text.len()]).collect() };
        Places { bytes, offset }
    }

    fn byte(&self, index: usize) -> usize {
        let at = if self.bytes.is_empty() { index } else { self.bytes.get(index).or(self.bytes.last()).copied().unwrap_or(0) };
        at + self.offset
    }
}

/// Ends the reading: the complaint is already in the report.
struct Stop;

struct Anchor {
    node: Node,
    nodes: usize,
    bytes: usize,
    depth: usize,
}

struct Loader<'a, 'r, 's> {
    parser: Parser<'a, StrInput<'a>>,
    report: &'r mut Report<'s>,
    places: Places,
    text: &'a str,
    offset: usize,
    anchors: BTreeMap<usize, Anchor>,
    nodes: usize,
    /// Bytes of text in keys and strings.
    bytes: usize,
    failed: bool,
}

impl<'a> Loader<'a, '_, '_> {
    fn document(&mut self) -> Option<Node> {
        let mut root: Option<Node> = None;
        loop {
            match self.next().ok()? {
                (Event::StreamEnd, _) => break,
                (Event::DocumentStart(_), marks) if root.is_some() => {
                    let here = self.span(marks);
                    self.report
                        .error("two-documents", here, "a second YAML document begins here; a file holds one workflow")
                        .help("put it into a file of its own");
                    return None;
                }
                (Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing, _) => {}
                (event, marks) => root = Some(self.node(event, marks, 0).ok()?.0),
            }
        }
        if root.as_ref().is_none_or(|root| root.value == Value::Null && !self.failed) {
            let here = self.report.source.span(0..0);
            self.report.error("empty", here, "the file is empty").help("a workflow needs at least `steps:` with one entry");
        }
        root.filter(|_| !self.failed)
    }

    fn next(&mut self) -> Result<(Event<'a>, Marks), Stop> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                syntax(self.report, &self.places, &error);
                Err(Stop)
            }
            None => Ok((Event::StreamEnd, Marks::default())),
        }
    }

    fn span(&self, marks: Marks) -> Span {
        self.report.source.span(self.places.byte(marks.start.index())..self.places.byte(marks.end.index()))
    }

    /// A value with the depth of its tree.
    fn node(&mut self, event: Event<'a>, marks: Marks, depth: usize) -> Result<(Node, usize), Stop> {
        let span = self.span(marks);
        self.count(1, 0, span)?;
        if depth > MOST_DEPTH {
            self.report.error("too-deep", span, format!("values are nested more than {MOST_DEPTH} deep here"));
            return Err(Stop);
        }
        let (nodes_before, bytes_before) = (self.nodes, self.bytes);
        let (node, height, anchor) = match event {
            Event::Alias(id) => return self.alias(id, span, depth),
            Event::Scalar(text, style, anchor, tag) => {
                self.count(0, text.len(), span)?;
                (self.scalar(&text, style, tag.as_deref(), span), 0, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.tag(tag.as_deref(), "seq", span);
                let (node, height) = self.list(span, depth)?;
                (node, height, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.tag(tag.as_deref(), "map", span);
                let (node, height) = self.map(span, depth)?;
                (node, height, anchor)
            }
            _ => return Err(Stop),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, Anchor { node: node.clone(), nodes: self.nodes - nodes_before + 1, bytes: self.bytes - bytes_before, depth: height });
        }
        Ok((node, height))
    }

    fn count(&mut self, nodes: usize, bytes: usize, span: Span) -> Result<(), Stop> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MOST_TEXT {
            self.report.error("too-large", span, format!("the document has more than {} MiB of text once its aliases are expanded", MOST_TEXT >> 20));
            return Err(Stop);
        }
        if self.nodes > MOST_NODES {
            self.report
                .error("too-large", span, format!("the document has more than {MOST_NODES} values once its aliases are expanded"))
                .help("read large data in a script instead of writing it into the workflow");
            return Err(Stop);
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, span: Span, depth: usize) -> Result<(Node, usize), Stop> {
        let Some((nodes, bytes, height)) = self.anchors.get(&id).map(|anchor| (anchor.nodes, anchor.bytes, anchor.depth)) else {
            self.report.error("recursive-alias", span, "this alias stands inside the value that it names");
            return Err(Stop);
        };
        self.count(nodes, bytes, span)?;
        if depth + height > MOST_DEPTH {
            self.report.error("too-deep", span, format!("with this alias expanded, values are nested more than {MOST_DEPTH} deep"));
            return Err(Stop);
        }
        self.anchors.get(&id).map(|anchor| (anchor.node.clone(), height)).ok_or(Stop)
    }

    fn list(&mut self, start: Span, depth: usize) -> Result<(Node, usize), Stop> {
        let mut items: Vec<Node> = Vec::new();
        let mut height = 0;
        loop {
            let (event, marks) = self.next()?;
            if event == Event::SequenceEnd {
                let end = self.end(marks, items.last().map(|item| item.span));
                return Ok((Node { value: Value::List(items), span: start.to(end), lines: Vec::new() }, height));
            }
            let (item, below) = self.node(event, marks, depth + 1)?;
            height = height.max(below + 1);
            items.push(item);
        }
    }

    fn map(&mut self, start: Span, depth: usize) -> Result<(Node, usize), Stop> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: BTreeMap<String, Span> = BTreeMap::new();
        let mut height = 0;
        loop {
            let (event, marks) = self.next()?;
            if event == Event::MappingEnd {
                let end = self.end(marks, entries.last().map(|entry| entry.key_span.to(entry.value.span)));
                return Ok((Node { value: Value::Map(entries), span: start.to(end), lines: Vec::new() }, height));
            }
            let (key, key_span) = self.key(event, marks)?;
            let (event, marks) = self.next()?;
            let (mut value, below) = self.node(event, marks, depth + 1)?;
            // A value that was left out stands where its key ends.
            if value.value == Value::Null && value.span.start == value.span.end {
                value.span = key_span;
            }
            height = height.max(below + 1);
            if let Some(first) = seen.insert(key.clone(), key_span) {
                self.failed = true;
                self.report.error("duplicate-key", key_span, format!("the key `{}` is given twice", super::shortened(&key))).label(first, "first given here");
                continue;
            }
            entries.push(Entry { key, key_span, value });
        }
    }

    /// Block collections have no closing character: they end where their last value does.
    fn end(&self, marks: Marks, last: Option<Span>) -> Span {
        let end = self.span(marks);
        match last {
            Some(last) if end.start == end.end => last,
            _ => end,
        }
    }

    fn key(&mut self, event: Event<'a>, marks: Marks) -> Result<(String, Span), Stop> {
        let span = self.span(marks);
        match event {
            Event::Scalar(text, _, anchor, tag) => {
                self.count(0, text.len(), span)?;
                self.tag(tag.as_deref(), "str", span);
                if anchor > 0 {
                    let node = Node { value: Value::String(text.to_string()), span, lines: Vec::new() };
                    self.anchors.insert(anchor, Anchor { node, nodes: 1, bytes: text.len(), depth: 0 });
                }
                Ok((text.into_owned(), span))
            }
            Event::Alias(id) => match self.anchors.get(&id).map(|anchor| (&anchor.node.value, anchor.bytes)) {
                Some((Value::String(text), bytes)) => {
                    let text = text.clone();
                    self.count(0, bytes, span)?;
                    Ok((text, span))
                }
                _ => {
                    self.report.error("key-not-text", span, "a key must be text; this alias is something else");
                    Err(Stop)
                }
            },
            _ => {
                self.report
                    .error("key-not-text", span, "a key must be text, not a list or a map")
                    .help("quote it; a value that begins with `{` or `[` and goes on after the closing bracket must be quoted too");
                Err(Stop)
            }
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Node {
        let kind = self.tag(tag, "", span);
        let value = match (kind, style) {
            (Some("str"), _) | (None, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted | ScalarStyle::Literal | ScalarStyle::Folded) => {
                Ok(Value::String(text.to_owned()))
            }
            (None, ScalarStyle::Plain) => scalar::plain(text),
            (Some(wanted), _) => tagged(wanted, text),
        };
        let value = value.unwrap_or_else(|problem| {
            self.failed = true;
            self.report.error("bad-number", span, problem).help("quote it to make it a string");
            Value::Null
        });
        let lines = if matches!(value, Value::String(_)) { self.lines(text, style, span) } else { Vec::new() };
        Node { value, span, lines }
    }

    /// Where the lines of a string stand, if the file has them exactly as they read.
    fn lines(&self, text: &str, style: ScalarStyle, span: Span) -> Vec<(usize, usize)> {
        let start = span.start - self.offset;
        if style == ScalarStyle::Literal {
            return self.block_lines(text, start).unwrap_or_default();
        }
        let start = start + usize::from(matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted));
        let same = self.text.get(start..start + text.len()) == Some(text);
        if same { vec![(0, start + self.offset)] } else { Vec::new() }
    }

    /// The lines of a literal block: each stands in the file behind its indentation.
    fn block_lines(&self, text: &str, start: usize) -> Option<Vec<(usize, usize)>> {
        let mut in_file = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let mut in_text = 0;
        let mut lines = Vec::new();
        for line in text.split_inclusive('\n') {
            let written = self.text.get(in_file..)?.split_inclusive('\n').next()?;
            let (line_text, written_text) = (line.trim_end_matches('\n'), written.trim_end_matches(['\n', '\r']));
            let indent = written_text.len().checked_sub(line_text.len())?;
            if written_text.get(indent..) != Some(line_text) {
                return None;
            }
            lines.push((in_text, in_file + indent + self.offset));
            in_text += line.len();
            in_file += written.len();
        }
        Some(lines)
    }

    /// The core schema's name in a tag, if one is given and it is one of `str`, `int` and so on.
    fn tag<'t>(&mut self, tag: Option<&'t Tag>, fitting: &str, span: Span) -> Option<&'t str> {
        let tag = tag?;
        let known = if tag.is_yaml_core_schema() { tag.suffix.as_str() } else { "" };
        let fits = match fitting {
            "" => matches!(known, "str" | "int" | "float" | "bool" | "null"),
            one => known == one,
        };
        if fits {
            return Some(known);
        }
        self.failed = true;
        let shown = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
        self.report.error("unknown-tag", span, format!("the YAML tag `{shown}` is not allowed here")).help("remove it; values have the types of JSON");
        None
    }
}

/// The value of a scalar with an explicit tag.
fn tagged(wanted: &str, text: &str) -> Result<Value, String> {
    let value = scalar::plain(text)?;
    match (wanted, value) {
        ("int", value @ Value::Int(_)) | ("float", value @ Value::Float(_)) | ("bool", value @ Value::Bool(_)) | ("null", value @ Value::Null) => Ok(value),
        #[expect(clippy::cast_precision_loss, reason = "the author asked for a float")]
        ("float", Value::Int(value)) => Ok(Value::Float(value as f64)),
        _ => Err(format!("`{}` is not of the type `!!{wanted}`", super::shortened(text))),
    }
}

/// Puts a syntax error into the report, at its place and in the words of someone who writes workflows.
fn syntax(report: &mut Report<'_>, places: &Places, error: &ScanError) {
    let text = report.source.text;
    let written = text.trim_end();
    let found = report.source.span(places.byte(error.marker().index())..usize::MAX).start;
    let at_end = found >= written.len();
    // At the end of the file there is nothing to point at but the last thing that was written.
    let at = if at_end { written.char_indices().next_back().map_or(0, |(at, _)| at) } else { found };
    let here = report.source.span(at..at + text[at..].chars().next().filter(|c| *c != '\n').map_or(0, char::len_utf8));
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[begin..].lines().next().unwrap_or("");
    let indent = &line[..line.len() - line.trim_start().len()];
    let info = error.info();
    let message = match info {
        "recursion limit exceeded" => format!("not valid YAML: values are nested more than {MOST_DEPTH} deep here"),
        "mapping values are not allowed in this context" => "not valid YAML: a `key: value` pair cannot stand here".to_owned(),
        _ => format!("not valid YAML: {info}"),
    };
    let unquoted = unquoted(text, at);
    let complaint = report.error("yaml-syntax", here, message);
    if let Some(template) = unquoted {
        complaint.help(format!("quote it: `{template}` has characters that mean something to YAML, so it must stand in quotes"));
    } else if indent.contains('\t') || info.contains("tab") {
        complaint.help("indent with spaces; YAML does not allow tabs");
    } else if at_end {
        complaint.help("something that was opened above is not closed: a `[`, a `{` or a quote");
    }
}

/// The expression or reference on the line of a syntax error, or on the line before it, that is not in quotes.
fn unquoted(text: &str, at: usize) -> Option<String> {
    let begin = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let before = text[..begin.saturating_sub(1)].rfind('\n').map_or(0, |newline| newline + 1);
    for start in [begin, before] {
        let line = text[start..].lines().next().unwrap_or("");
        let in_quotes = |place: usize| line[..place].matches('"').count() % 2 == 1 || line[..place].matches('\'').count() % 2 == 1;
        if let Some(place) = line.find("${").filter(|place| !in_quotes(*place)) {
            let length = line[place..].find('}').map_or(line.len() - place, |close| close + 1);
            return Some(super::shortened(&line[place..place + length]));
        }
        // A reference with an index ends at its bracket inside `{ }` and `[ ]`.
        let reference = line.match_indices('$').map(|(place, _)| place).find(|place| {
            let word = line[*place..].split([' ', ',', '}']).next().unwrap_or("");
            word.contains('[') && !in_quotes(*place)
        });
        if let Some(place) = reference {
            let length = line[place..].find([',', '}']).unwrap_or(line.len() - place);
            return Some(super::shortened(line[place..place + length].trim_end()));
        }
    }
    None
}
