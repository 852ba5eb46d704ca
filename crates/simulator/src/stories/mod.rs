//! Seeded stories: random definitions in a random world (failures, cancels, events, deadlines, crashes), checked for what
//! must hold of every run whatever happens to it.

mod attempts;
pub mod definitions;
pub mod dice;
pub mod invariants;
mod recovery;
mod tasks;

use std::sync::Arc;

use serde_json::{Value, json};
use viat_engine::expression::Evaluate;
use viat_engine::failure::Failure;
use viat_engine::journal::{Batch, Verdict};
use viat_engine::path::Purpose;
use viat_engine::policies::class::Class;
use viat_engine::{Input, Program, Rejection, Wanted, decide};

use crate::setup::{Crash, Scripts, Setup};
use crate::story::{ANY, Deed, How, Outcome};
use crate::trace::trace;
use crate::world::World;
use definitions::{Documents, EVENTS, RESOLVABLE, inputs};
use dice::Dice;

/// What a story came to.
pub struct Told {
    /// How often an engine died in it.
    pub crashes: usize,
    /// Its journal.
    pub journal: Vec<Batch>,
}

/// Tells the story of a seed and checks it.
///
/// # Errors
/// What does not hold, with the definition and the trace.
pub fn tell(seed: u64, evaluator: &dyn Evaluate) -> Result<Told, String> {
    let mut dice = Dice::new(seed);
    let documents = Documents::new(&mut dice);
    let shown = |problem: String| format!("story {seed}: {problem}\n{}", documents.shown());
    let program = Arc::new(documents.program().map_err(shown)?);
    let plot = Plot::new(&mut dice, seed);
    let mut world = plot.world(&program, evaluator);
    let played = world.play(&plot.crashes);
    let problem = played.and_then(|()| {
        invariants::check(&world, &program)?;
        terminal_runs_never_change(&mut world, evaluator)?;
        if seed.is_multiple_of(8) { is_told_the_same_again(&plot, &world, &program, evaluator) } else { Ok(()) }
    });
    match problem {
        Ok(()) => Ok(Told { crashes: world.crashes, journal: world.journal }),
        Err(problem) => Err(shown(format!("{problem}\n{}", trace(&world)))),
    }
}

fn terminal_runs_never_change(world: &mut World<'_>, evaluator: &dyn Evaluate) -> Result<(), String> {
    if !world.run.status.is_terminal() {
        return Ok(());
    }
    let before = world.run.clone();
    let inputs = [
        Input::Continue,
        Input::Tick,
        Input::Cancel { by: None, reason: None },
        Input::Event { name: "paid".to_owned(), payload: Value::Null },
        Input::Adopted { owner: "late".to_owned() },
    ];
    for input in inputs {
        if decide(&mut world.run, input.clone(), world.now + 1_000_000_000, evaluator) != Err(Rejection::Terminal) || world.run != before {
            return Err(format!("the run has ended, yet {input:?} changed it"));
        }
    }
    Ok(())
}

fn is_told_the_same_again(plot: &Plot, first: &World<'_>, program: &Arc<Program>, evaluator: &dyn Evaluate) -> Result<(), String> {
    let mut again = plot.world(program, evaluator);
    again.play(&plot.crashes)?;
    if again.journal == first.journal { Ok(()) } else { Err("the same seed gave another journal".to_owned()) }
}

/// Everything but the definition.
struct Plot {
    seed: u64,
    timeout_ms: Option<u64>,
    active_budget_ms: u64,
    deeds: Vec<(i64, Deed)>,
    crashes: Vec<Crash>,
    /// How many of a hundred attempts fail.
    trouble: u64,
}

impl Plot {
    fn new(dice: &mut Dice, seed: u64) -> Plot {
        let mut deeds = Vec::new();
        if dice.chance(20) {
            deeds.push((dice.ms(0, 1_500), Deed::Cancel));
        }
        for _ in 0..dice.count(0, 3) {
            deeds.push((dice.ms(0, 2_000), Deed::Event(dice.pick(&EVENTS).to_owned(), json!(dice.between(0, 9)))));
        }
        if dice.chance(40) {
            for _ in 0..dice.count(1, 3) {
                deeds.push((dice.ms(0, 1_000), Deed::Crash(dice.ms(0, 1_500))));
            }
        }
        what_people_do_about_it(dice, &mut deeds);
        let mut crashes: Vec<Crash> = if dice.chance(30) {
            (0..dice.count(1, 2)).map(|_| Crash { after_batches: dice.count(1, 20), down_ms: dice.ms(0, 300) }).collect()
        } else {
            Vec::new()
        };
        crashes.sort_by_key(|crash| crash.after_batches);
        let timeout_ms = dice.chance(10).then(|| dice.between(0, 2_000));
        let active_budget_ms = if dice.chance(30) { dice.between(1, 2_000) } else { 1_800_000 };
        Plot { seed, timeout_ms, active_budget_ms, deeds, crashes, trouble: dice.pick(&[0, 5, 20, 60]) }
    }

    fn world<'a>(&'a self, program: &Arc<Program>, evaluator: &'a dyn Evaluate) -> World<'a> {
        World::new(Setup {
            next: None,
            program: Arc::clone(program),
            inputs: inputs(self.seed.is_multiple_of(2)),
            timeout_ms: self.timeout_ms,
            active_budget_ms: Some(self.active_budget_ms),
            shows_keys: false,
            deeds: self.deeds.clone(),
            scripts: self,
            evaluator,
        })
    }
}

impl Scripts for Plot {
    fn outcome(&self, wanted: &Wanted) -> Result<Outcome, String> {
        let mut dice = Dice::named(self.seed, wanted.path.as_str(), wanted.attempt);
        let purpose = wanted.path.purpose();
        let queue_ms = if dice.chance(10) { dice.ms(0, 80) } else { 0 };
        let after_ms = dice.ms(0, 250);
        let defers = if purpose == Purpose::Work && dice.chance(15) {
            vec![("mail".to_owned(), json!({ "from": wanted.path, "attempt": wanted.attempt }))]
        } else {
            Vec::new()
        };
        let how = match purpose {
            _ if dice.chance(self.trouble) => trouble(&mut dice),
            Purpose::Work | Purpose::Compensate => Some(How::Returns(json!(wanted.path))),
            Purpose::Resolve(_) => Some(How::Tells { unknown: dice.chance(20) }),
        };
        let takes_effect = purpose == Purpose::Work && wanted.script == RESOLVABLE && dice.chance(50) && is_uncertain(how.as_ref());
        Ok(Outcome { how, after_ms, queue_ms, takes_effect, defers })
    }
}

/// Whether the attempt may have taken effect if it is not heard to return.
fn is_uncertain(how: Option<&How>) -> bool {
    match how {
        Some(How::Fails(failure)) => failure.class.is_uncertain(),
        Some(How::NotStarted(_)) => false,
        _ => true,
    }
}

/// They decide reviews, say what came of attempts, resume and have effects undone: mostly too early or too late, and they are refused.
fn what_people_do_about_it(dice: &mut Dice, deeds: &mut Vec<(i64, Deed)>) {
    let verdicts = [Verdict::Approved, Verdict::Rejected, Verdict::ChangesRequested];
    let any = || ANY.to_owned();
    if dice.chance(50) {
        for _ in 0..dice.count(1, 4) {
            deeds.push((dice.ms(0, 2_500), Deed::Decide(any(), dice.pick(&verdicts), Value::Null)));
        }
        if dice.chance(30) {
            deeds.push((dice.ms(0, 1_500), Deed::Extend(any(), dice.ms(1, 1_000))));
        }
    }
    if dice.chance(70) {
        for _ in 0..dice.count(1, 3) {
            deeds.push((dice.ms(200, 4_000), Deed::Settle(any(), None)));
        }
    }
    if dice.chance(50) {
        for _ in 0..dice.count(1, 3) {
            let from = dice.chance(40).then(any);
            deeds.push((dice.ms(300, 8_000), Deed::Resume(from, dice.chance(50))));
        }
    }
    if dice.chance(30) {
        for _ in 0..dice.count(1, 2) {
            deeds.push((dice.ms(300, 8_000), Deed::Compensate));
        }
    }
}

fn trouble(dice: &mut Dice) -> Option<How> {
    match dice.between(1, 100) {
        1..=15 => {
            Some(How::NotStarted(Failure::new(dice.pick(&[Class::QueueFull, Class::QueueWaitTimeout, Class::PoolSpawnFailed, Class::Resource]), "no worker")))
        }
        16..=20 => None,
        21..=70 => {
            let mut failure = Failure::new(dice.pick(&[Class::Transport, Class::ScriptBroken, Class::Timeout]), "trouble");
            failure.retry_after_ms = dice.chance(20).then(|| dice.between(0, 400));
            Some(How::Fails(failure))
        }
        _ => Some(How::Fails(Failure::new(dice.pick(&Class::ALL), "trouble"))),
    }
}
