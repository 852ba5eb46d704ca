//! Decides about one use of a name, and says what is wrong with it.

use super::super::typed::Use;
use super::{Checker, Has, Visible};
use crate::diagnostic::Span;
use crate::suggest;

/// What `$run` has.
const RUN: [&str; 4] = ["id", "workflow", "version", "started_at"];

impl Checker<'_, '_, '_> {
    /// Checks one use of a name.
    pub fn found(&mut self, used: &Use) {
        let first = used.path.first().map(String::as_str);
        match used.root.as_str() {
            "inputs" => self.inputs(used, first),
            "run" => self.fixed(used, first, &RUN),
            "iteration" if self.loops > 0 => self.fixed(used, first, &["index"]),
            "iteration" => {
                let message = format!("`{}` exists only inside a loop", used.shown());
                self.report.error("out-of-scope", used.span, message);
            }
            "_error" if self.catches > 0 => {}
            "_error" => {
                let message = format!("`{}` exists only inside a `catch` branch", used.shown());
                let help = format!("after an entry with `on_error: continue` write `{}`", used.with("id._error"));
                self.report.error("out-of-scope", used.span, message).help(help);
            }
            name => match self.visible.get(name).copied() {
                Some(Visible::Variable) => {}
                Some(Visible::Entry { span, has }) => self.entry_key(used, first, span, has),
                Some(Visible::Failed { span }) => self.failed_key(used, first, span),
                None => self.invisible(used),
            },
        }
    }

    fn inputs(&mut self, used: &Use, first: Option<&str>) {
        let Some(name) = first.filter(|name| !self.inputs.contains(name)) else { return };
        let message = format!("there is no input `{}`", crate::yaml::shortened(name));
        let help = match suggest::nearest(name, self.inputs.iter().copied()) {
            Some(nearest) => format!("did you mean `{}`?", used.with(&format!("inputs.{nearest}"))),
            None if self.inputs.is_empty() => format!("declare it: `inputs: {{{name}: string}}`"),
            None => format!("declare it under `inputs`; declared are {}", suggest::listed(self.inputs.iter().copied(), 10)),
        };
        self.report.error("unknown-input", used.span, message).help(help);
    }

    fn fixed(&mut self, used: &Use, first: Option<&str>, keys: &[&str]) {
        let Some(name) = first.filter(|name| !keys.contains(name)) else { return };
        let message = format!("`{}` has no `{}`", used.shown(), crate::yaml::shortened(name));
        let help = match suggest::nearest(name, keys.iter().copied()) {
            Some(nearest) => format!("did you mean `{}`?", used.with(&format!("{}.{nearest}", used.root))),
            None => format!("it has {}", suggest::listed(keys.iter().copied(), 10)),
        };
        self.report.error("unknown-name", used.span, message).help(help);
    }

    fn entry_key(&mut self, used: &Use, first: Option<&str>, span: Span, has: Has) {
        if has.anything {
            return;
        }
        let root = used.root.as_str();
        let output = used.with(&format!("{root}.output"));
        match first {
            Some("output") if has.output => self.review_key(used),
            Some("_error") if has.error => {}
            Some("_errors") if has.errors => {}
            _ if !has.output => {
                let asked = first.map_or_else(|| used.shown(), |key| used.with(&format!("{root}.{}", crate::yaml::shortened(key))));
                self.report
                    .error("no-value", used.span, format!("`{asked}`: a `parallel` entry has no value of its own"))
                    .label(span, "the parallel")
                    .help("a parallel has no own value; its entries are visible after it: use one of them");
            }
            Some("_error") => {
                let (message, help) = match (has.script, has.caught) {
                    (true, true) => (
                        format!("`{}._error` is not available after the `catch` of `{root}`", used.shown()),
                        "the recovery dealt with it; give what is needed from the `catch` branch as its value".to_owned(),
                    ),
                    (true, false) => {
                        (format!("`{}._error` exists only if `{root}` has `on_error: continue`", used.shown()), format!("add `on_error: continue` to `{root}`"))
                    }
                    (false, _) if has.errors => {
                        (format!("`{}._error`: a loop lists its failed iterations", used.shown()), format!("write `{}`", used.with(&format!("{root}._errors"))))
                    }
                    (false, _) => (
                        format!("`{}._error`: only a script entry with `on_error: continue` has an error", used.shown()),
                        format!("what it came to is `{output}`"),
                    ),
                };
                self.report.error("no-error-value", used.span, message).label(span, "the entry").help(help);
            }
            Some(other) => {
                let message = format!("an entry has `output`, and `{}` has no `{}`", used.shown(), crate::yaml::shortened(other));
                let known = if has.errors { ["output", "_errors"] } else { ["output", "_error"] };
                let help = match suggest::nearest(other, known) {
                    _ if other == "_errors" => "only a loop has `_errors`".to_owned(),
                    Some(key) => format!("did you mean `{}`?", used.with(&format!("{root}.{key}"))),
                    None => format!("did you mean `{output}.{other}`?"),
                };
                self.report.error("unknown-name", used.span, message).help(help);
            }
            None => {
                let message = format!("`{}` is an entry, not a value", used.shown());
                self.report.error("not-a-value", used.span, message).help(format!("write `{output}`"));
            }
        }
    }

    /// Inside its own recovery branch an entry has an error and nothing else.
    fn failed_key(&mut self, used: &Use, first: Option<&str>, span: Span) {
        if first == Some("_error") {
            return;
        }
        let message = format!("`{}` has failed: in its `catch` branch it has an error and no output", used.shown());
        self.report
            .error("out-of-scope", used.span, message)
            .label(span, "the entry that failed")
            .help(format!("write `{}`", used.with(&format!("{}._error", used.root))));
    }

    fn invisible(&mut self, used: &Use) {
        let name = used.root.as_str();
        let shown = used.shown();
        if self.running.last() == Some(&name) {
            self.report.error("out-of-scope", used.span, format!("`{shown}` refers to the entry itself, which has no output yet"));
        } else if self.running.contains(&name) {
            self.report.error("out-of-scope", used.span, format!("`{shown}` is not finished here: this stands inside it"));
        } else if let Some(place) = self.places.get(name).cloned() {
            let common = place.containers.iter().zip(&self.containers).take_while(|(theirs, ours)| theirs == ours).count();
            match place.containers.get(common) {
                Some(container) if container.branch == "steps" => self.in_loop(used, container.owner, place.span),
                Some(container) => {
                    let message = format!("`{shown}` is not certain to have run here: it is local to {}", container.shown());
                    let help = match container.branch {
                        "branches" => "entries of other branches are visible only after the `parallel`".to_owned(),
                        _ => format!("the value of the whole is `{}`", used.with(&format!("{}.output", container.owner))),
                    };
                    self.report.error("out-of-scope", used.span, message).label(place.span, "it stands here").help(help);
                }
                None => {
                    let message = format!("`{shown}` is declared later: an entry sees only those before it");
                    self.report.error("out-of-scope", used.span, message).label(place.span, "it stands here").help("move it before this entry");
                }
            }
        } else if let Some(owner) = self.variables.get(name).copied() {
            self.report.error("out-of-scope", used.span, format!("`{shown}` is the variable of the loop `{owner}` and exists only in its steps"));
        } else {
            self.unknown(used);
        }
    }

    /// An entry of a loop's body, used outside it.
    fn in_loop(&mut self, used: &Use, owner: &str, span: Span) {
        let shown = used.shown();
        let (message, help) = if self.visible.contains_key(owner) {
            (
                format!("`{shown}` is local to the loop `{owner}`, which is over here: an entry of a loop exists only within its iteration"),
                format!("`{}` lists the value of each iteration", used.with(&format!("{owner}.output"))),
            )
        } else if self.running.contains(&owner) {
            (
                format!("`{shown}` is local to the loop `{owner}`: it is not visible to the loop's own keys"),
                format!("they see what is before the loop; a `while` sees `{}`, too", used.with("iteration.index")),
            )
        } else {
            (format!("`{shown}` is not certain to have run here: it is local to the loop `{owner}`"), "an entry sees only those before it".to_owned())
        };
        self.report.error("out-of-scope", used.span, message).label(span, "it stands here").help(help);
    }

    fn unknown(&mut self, used: &Use) {
        if self.report.is_full() {
            self.report.error("unknown-name", used.span, "nothing here is called so");
            return;
        }
        let fixed = ["inputs", "run", "iteration", "_error"];
        let visible = self.visible.keys().copied().chain(fixed);
        let everything = self.places.keys().copied();
        let nearest = suggest::nearest(&used.root, visible).or_else(|| suggest::nearest(&used.root, everything));
        let help = match nearest {
            Some(name) => format!("did you mean `{}`?", used.with(name)),
            None if self.inputs.contains(&used.root.as_str()) => format!("did you mean the input `{}`?", used.with(&format!("inputs.{}", used.root))),
            None if used.reference => format!("for a literal text write `${}`", used.shown()),
            None => format!("visible are {}", suggest::listed(self.visible.keys().copied().chain(["inputs", "run"]), 10)),
        };
        self.report.error("unknown-name", used.span, format!("nothing here is called `{}`", used.shown())).help(help);
    }
}
