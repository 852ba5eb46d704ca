//! What documents say of effects and of people: `resolve`, `compensate`, `review`.

use serde_json::{Value, json};

use super::{Author, FIND, RESOLVABLE, UNDO};

impl Author<'_> {
    pub(super) fn retry(&mut self) -> Value {
        let initial_ms = self.dice.between(10, 200);
        json!({
            "times": self.dice.between(1, 3),
            "initial_ms": initial_ms,
            "factor": self.dice.pick(&[1.0, 1.5, 2.0, 10.0]),
            "max_ms": initial_ms + self.dice.between(0, 500),
            "jitter": self.dice.chance(60),
        })
    }

    /// Says how a script's effect is found out and undone, now and then.
    pub(super) fn effect(&mut self, id: &str, entry: &mut Value) {
        if self.dice.chance(20) {
            entry["script"] = json!(RESOLVABLE);
            entry["resolve"] = self.helper(json!({ "script": FIND }));
        }
        match self.dice.between(1, 20) {
            1 => entry["compensate"] = json!({ "irreversible": "it is out" }),
            2..=9 => {
                let args = if self.dice.chance(4) { json!({ "of": "$inputs.bag.missing" }) } else { json!({ "of": id }) };
                let idempotent = self.dice.chance(40);
                entry["compensate"] = self.helper(json!({ "script": UNDO, "args": args, "idempotent": idempotent }));
            }
            _ => {}
        }
    }

    fn helper(&mut self, mut helper: Value) -> Value {
        if self.dice.chance(50) {
            helper["retry"] = self.retry();
        }
        if self.dice.chance(20) {
            helper["timeout"] = json!(if self.dice.chance(10) { 0 } else { self.dice.between(1, 300) });
        }
        helper
    }

    /// From here on this entry can be undone, if there is something in it to undo.
    pub(super) fn note_effects(&mut self, entry: &Value) {
        let called = entry.get("workflow").is_some();
        if (called || entry.to_string().contains("\"compensate\":{"))
            && let Some(id) = entry["id"].as_str()
        {
            self.undoable.push(id.to_owned());
        }
    }

    pub(super) fn targets(&mut self) -> Vec<String> {
        let mut left = self.undoable.clone();
        let count = self.dice.count(1, left.len().min(3));
        (0..count).map(|_| left.swap_remove(self.dice.count(0, left.len() - 1))).collect()
    }

    pub(super) fn review(&mut self) -> Value {
        let mut review = json!({ "title": "Check it" });
        if self.dice.chance(70) {
            let timeout_ms = self.dice.between(100, 1_000);
            review["timeout"] = json!(timeout_ms);
            if self.dice.chance(40) {
                review["remind"] = json!([self.dice.between(1, timeout_ms - 1)]);
            }
        }
        review
    }
}
