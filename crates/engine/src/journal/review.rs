//! What a journal says of reviews: what a person is asked, and what they decide.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Millis;
use crate::expression::Evaluate;
use crate::ir::InputDeclaration;

/// What a person is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewRequest {
    /// The review's id, derived from the run and the path.
    pub id: String,
    /// In one line.
    pub title: String,
    /// What the person is shown.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub show: Value,
    /// The fields of the decision's `data`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub form: Vec<InputDeclaration>,
    /// Who is asked; empty: anyone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assignees: Vec<String>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Millis>,
    /// When the assignees are reminded, ascending.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remind: Vec<Millis>,
}

/// What was decided in a review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReviewDecision {
    /// The decision.
    pub decision: Verdict,
    /// Who decided; `None` if it expired.
    pub by: Option<String>,
    /// What they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The form's fields.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

impl ReviewDecision {
    /// The decision with its data checked against the review's form and filled up with defaults. Only an approval needs data.
    ///
    /// # Errors
    /// What does not fit.
    pub fn fitting(mut self, form: &[InputDeclaration], evaluator: &dyn Evaluate) -> Result<ReviewDecision, String> {
        if self.data.is_null() && (form.is_empty() || self.decision != Verdict::Approved) {
            return Ok(self);
        }
        if form.is_empty() {
            return Err("this review has no form: it takes no data".to_owned());
        }
        let given = if self.data.is_null() { Value::Object(Map::new()) } else { self.data };
        self.data = Value::Object(evaluator.check_form(form, given)?);
        Ok(self)
    }
}

/// The four outcomes of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Yes.
    Approved,
    /// No.
    Rejected,
    /// Not like this.
    ChangesRequested,
    /// Nobody decided in time.
    Expired,
}

impl Verdict {
    /// Every outcome.
    pub const ALL: [Verdict; 4] = [Verdict::Approved, Verdict::Rejected, Verdict::ChangesRequested, Verdict::Expired];

    /// Its name in values, records and commands.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Approved => "approved",
            Verdict::Rejected => "rejected",
            Verdict::ChangesRequested => "changes_requested",
            Verdict::Expired => "expired",
        }
    }
}
