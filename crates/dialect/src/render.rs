//! Draws diagnostics for people, as rustc does.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::diagnostic::{Diagnostic, Severity, Span};

/// How to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Text alone, for files, pipes and `NO_COLOR`.
    #[default]
    Plain,
    /// With ANSI colours.
    Coloured,
}

/// Draws all diagnostics of a file, one paragraph each.
pub fn render(diagnostics: &[Diagnostic], text: &str, style: Style) -> String {
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let drawn: Vec<String> = diagnostics.iter().map(|one| draw(&renderer, one, text)).collect();
    drawn.join("\n\n")
}

fn draw(renderer: &Renderer, diagnostic: &Diagnostic, text: &str) -> String {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.as_str());
    if diagnostic.code == "too-many" {
        return renderer.render(&[Group::with_title(title)]);
    }
    let window = Window::around(diagnostic, text);
    let mut primary = AnnotationKind::Primary.span(window.place(diagnostic.span));
    if !diagnostic.note.is_empty() {
        primary = primary.label(diagnostic.note.as_str());
    }
    let mut snippet = Snippet::source(window.text).path(diagnostic.file.as_str()).line_start(window.line).annotation(primary);
    for label in &diagnostic.labels {
        snippet = snippet.annotation(AnnotationKind::Context.span(window.place(label.span)).label(label.message.as_str()));
    }
    let mut group = title.element(snippet);
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    renderer.render(&[group])
}

/// The lines that a diagnostic speaks of: drawing it must not cost the whole file.
struct Window<'a> {
    text: &'a str,
    start: usize,
    line: usize,
}

impl<'a> Window<'a> {
    fn around(diagnostic: &Diagnostic, text: &'a str) -> Window<'a> {
        let spans = || std::iter::once(&diagnostic.span).chain(diagnostic.labels.iter().map(|label| &label.span));
        let first = spans().map(|span| clip(text, span.start)).min().unwrap_or(0);
        let last = spans().map(|span| clip(text, span.end)).max().unwrap_or(0);
        let start = text[..first].rfind('\n').map_or(0, |at| at + 1);
        let end = text[last..].find('\n').map_or(text.len(), |at| last + at);
        let line = text[..start].bytes().filter(|byte| *byte == b'\n').count() + 1;
        Window { text: &text[start..end], start, line }
    }

    /// Where a span lies in the window. A long block is underlined only in its first line.
    fn place(&self, span: Span) -> std::ops::Range<usize> {
        let start = clip(self.text, span.start.saturating_sub(self.start));
        let end = clip(self.text, span.end.saturating_sub(self.start)).max(start);
        let first_line = self.text[start..end].find(['\n', '\r']).map_or(end, |at| start + at);
        start..if first_line == start { end.min(start + 1) } else { first_line }
    }
}

fn clip(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
