//! What a review comes to is known: its keys, the fields of its form, its decisions.

use viat_engine::journal::Verdict;

use super::super::typed::{Compared, Kind, Use};
use super::{Checker, Visible};
use crate::suggest;

/// What the value of a review has.
const KEYS: [&str; 5] = ["decision", "by", "at", "comment", "data"];

impl<'d> Checker<'_, '_, 'd> {
    /// Checks the keys after `$review.output`.
    pub fn review_key(&mut self, used: &Use) {
        let Some(Kind::Review(review)) = self.places.get(used.root.as_str()).map(|place| place.kind) else { return };
        let output = used.with(&format!("{}.output", used.root));
        let Some(key) = used.path.get(1) else { return };
        if !KEYS.contains(&key.as_str()) {
            let help = match (suggest::nearest(key, KEYS), review.form.iter().any(|field| field.name == *key)) {
                (Some(nearest), _) => format!("did you mean `{output}.{nearest}`?"),
                (None, true) => format!("it is a field of the form: `{output}.data.{key}`"),
                (None, false) => format!("it has {}", suggest::listed(KEYS, 10)),
            };
            let message = format!("the value of a review has no `{}`", crate::yaml::shortened(key));
            self.report.error("unknown-name", used.span, message).help(help);
            return;
        }
        let Some(field) = used.path.get(2).filter(|_| key == "data") else { return };
        let fields = || review.form.iter().map(|field| field.name.as_str());
        if fields().any(|name| name == field) {
            return;
        }
        let help = match suggest::nearest(field, fields()) {
            Some(nearest) => format!("did you mean `{output}.data.{nearest}`?"),
            None if review.form.is_empty() => {
                format!("the review has no `form`; declare the field there: `form: {{{}: string}}`", crate::yaml::shortened(field))
            }
            None => format!("its fields are {}", suggest::listed(fields(), 20)),
        };
        let message = format!("the form of the review `{}` has no field `{}`", used.root, crate::yaml::shortened(field));
        self.report.error("unknown-name", used.span, message).help(help);
    }

    /// Warns of a decision that no review comes to.
    pub fn decision(&mut self, compared: &Compared) {
        let review = self.places.get(compared.root.as_str()).is_some_and(|place| matches!(place.kind, Kind::Review(_)));
        let visible = matches!(self.visible.get(compared.root.as_str()), Some(Visible::Entry { .. }));
        if !review || !visible || compared.path != ["output", "decision"] {
            return;
        }
        let verdicts = || Verdict::ALL.into_iter().map(Verdict::name);
        if verdicts().any(|name| name == compared.text) {
            return;
        }
        let help = match suggest::nearest(&compared.text, verdicts()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("a review comes to {}", suggest::listed(verdicts(), 10)),
        };
        let message = format!("no review is ever decided `{}`", crate::yaml::shortened(&compared.text));
        self.report.warning("unknown-decision", compared.span, message).help(help);
    }
}
