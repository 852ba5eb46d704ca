//! What each run is given, and what the people around it will do: chosen from the seed before anything starts.

use serde_json::{Value, json};
use viat_simulator::stories::dice::Dice;

/// One run and its people.
#[derive(Clone, Debug)]
pub struct Story {
    /// The workflow.
    pub workflow: &'static str,
    /// Its inputs; the outbox is added when it is known.
    pub inputs: Value,
    /// What the reviewer does, if there is a review.
    pub review: Review,
    /// Whether somebody cancels it, sooner or later.
    pub cancel: bool,
    /// Whether there is another result already under the flagship's key.
    pub conflict: bool,
}

/// What a reviewer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// Decides so.
    Decide(&'static str),
    /// Lets it expire: the expiry is moved near.
    Expire,
    /// Has the run cancelled.
    Cancel,
}

/// The flagship.
pub const CONTENT: &str = "content";
/// The workflow with one of everything.
pub const WIDE: &str = "wide";

/// So many stories, half of each sort.
pub fn stories(seed: u64, count: usize) -> Vec<Story> {
    (0..count).map(|number| story(&mut Dice::named(seed, "story", u32::try_from(number).unwrap_or(u32::MAX)), number)).collect()
}

fn story(dice: &mut Dice, number: usize) -> Story {
    if number.is_multiple_of(2) { content(dice, number) } else { wide(dice) }
}

fn content(dice: &mut Dice, number: usize) -> Story {
    let topic = if dice.chance(8) { " ".to_owned() } else { format!("topic {number}") };
    let inputs = json!({"task_id": format!("t-{number}"), "topic": topic, "rehearse_failure": dice.chance(30)});
    let review = dice.pick(&[
        Review::Decide("approved"),
        Review::Decide("approved"),
        Review::Decide("approved"),
        Review::Decide("rejected"),
        Review::Decide("changes_requested"),
        Review::Expire,
        Review::Cancel,
    ]);
    Story { workflow: CONTENT, inputs, review, cancel: dice.chance(4), conflict: dice.chance(15) }
}

fn wide(dice: &mut Dice) -> Story {
    let refuse = if dice.chance(55) { "" } else { dice.pick(&["first", "plain_too", "turn", "leaf_plain", "shrugged", "last", "last", "last"]) };
    let inputs = json!({
        "nap_ms": dice.between(5, 60), "refuse": refuse, "breaks": dice.pick(&["", "before", "after"]), "stubborn": dice.chance(15),
        "early": dice.chance(25), "items": (0..dice.between(1, 4)).collect::<Vec<_>>(),
    });
    Story { workflow: WIDE, inputs, review: Review::Cancel, cancel: dice.chance(12), conflict: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_tells_the_same_stories() {
        let told = |seed| format!("{:?}", stories(seed, 40));
        assert_eq!(told(7), told(7));
        assert_ne!(told(7), told(8));
        assert_eq!(stories(7, 40).iter().filter(|story| story.workflow == WIDE).count(), 20);
    }
}
