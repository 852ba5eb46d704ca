//! What a `compensate` entry may name: an entry that is over for certain and has an effect that can be undone.

use super::super::typed::{Entry, Kind, Target};
use super::{Checker, Visible};
use crate::suggest;
use crate::yaml::shortened;

impl<'d> Checker<'_, '_, 'd> {
    /// Checks one id of a `compensate` entry.
    pub fn target(&mut self, target: &'d Target) {
        let id = target.id.as_str();
        match self.visible.get(id).copied() {
            Some(Visible::Entry { span, .. }) => {
                let Some(kind) = self.places.get(id).map(|place| place.kind) else { return };
                if !can_undo(kind) {
                    let (message, help) = match kind {
                        Kind::Script(_) => {
                            (format!("`{id}` does not say how its effect is undone"), format!("give `{id}` a `compensate: {{script: …, args: {{…}}}}`"))
                        }
                        _ if kind.inner().is_empty() => (
                            format!("`{id}` has no effect that could be undone: it runs no script"),
                            "name a script entry that has a `compensate`, or an entry with such ones inside".to_owned(),
                        ),
                        _ => (format!("no script entry inside `{id}` says how its effect is undone"), "give those with an effect a `compensate`".to_owned()),
                    };
                    self.report.error("nothing-to-undo", target.span, message).label(span, "the entry").help(help);
                }
            }
            Some(Visible::Failed { span }) => {
                let message = format!("`{id}` has failed where this stands, in its `catch` branch: it has no complete effect to undo");
                self.report.error("nothing-to-undo", target.span, message).label(span, "the entry that failed");
            }
            Some(Visible::Variable) => {
                self.report.error("unknown-name", target.span, format!("`{id}` is the variable of a loop, not an entry"));
            }
            None => self.not_before(target),
        }
    }

    /// Says why an id cannot be named here.
    fn not_before(&mut self, target: &Target) {
        let id = target.id.as_str();
        let own = self.running.last() == Some(&id);
        let around = self.running.contains(&id);
        if self.report.is_full() {
            self.report.error("out-of-scope", target.span, "this cannot be undone here");
            return;
        }
        let Some(place) = self.places.get(id).cloned() else {
            let known = self.places.iter().filter(|(_, place)| can_undo(place.kind)).map(|(name, _)| *name);
            let help = match suggest::nearest(id, known.clone()).or_else(|| suggest::nearest(id, self.places.keys().copied())) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => match suggest::listed(known, 10) {
                    none if none.is_empty() => "no entry of this document has a `compensate`".to_owned(),
                    some => format!("entries that can be undone: {some}"),
                },
            };
            self.report.error("unknown-name", target.span, format!("there is no entry `{}`", shortened(id))).help(help);
            return;
        };
        if own {
            self.report.error("out-of-scope", target.span, format!("`{id}` is this entry itself")).help("name an entry before it");
            return;
        }
        if around {
            let message = format!("`{id}` is not finished here: this stands inside it");
            self.report
                .error("out-of-scope", target.span, message)
                .label(place.span, "it stands here")
                .help("name the entries inside it that stand before this one");
            return;
        }
        let common = place.containers.iter().zip(&self.containers).take_while(|(theirs, ours)| theirs == ours).count();
        let (message, help) = match place.containers.get(common) {
            None => (format!("`{id}` is declared later: only what stands before can be undone"), "move it before this entry".to_owned()),
            Some(container) => {
                let owner = container.owner;
                let help = match (container.branch, self.visible.contains_key(owner)) {
                    (_, true) => format!("name `{owner}`: that undoes whatever was done inside it"),
                    ("branches", false) => "entries of other branches can be named only after the `parallel`".to_owned(),
                    (_, false) => "name an entry that stands before this one".to_owned(),
                };
                (format!("`{id}` is not certain to have run here: it is local to {}", container.shown()), help)
            }
        };
        self.report.error("out-of-scope", target.span, message).label(place.span, "it stands here").help(help);
    }
}

/// Whether an entry, or one inside it, has an effect of which it is said how it is undone; of a called workflow it is not known.
fn can_undo(kind: &Kind) -> bool {
    let inside = |entries: &[Entry]| entries.iter().any(|entry| can_undo(&entry.kind));
    match kind {
        Kind::Script(script) if script.compensate.is_some() => true,
        Kind::Call(_) | Kind::Broken => true,
        _ => kind.inner().into_iter().any(inside),
    }
}
