//! Seeded stories: random definitions in a random world (failures, cancels, events, deadlines, crashes), checked for what
//! must hold of every run whatever happens to it.

mod attempts;
pub mod definitions;
pub mod dice;
pub mod invariants;

use std::sync::Arc;

use serde_json::{Value, json};
use viat_engine::expression::Evaluate;
use viat_engine::failure::Failure;
use viat_engine::journal::Batch;
use viat_engine::policies::class::Class;
use viat_engine::{Input, Program, Rejection, Wanted, decide};

use crate::setup::{Crash, Scripts, Setup};
use crate::story::{Deed, How, Outcome};
use crate::trace::trace;
use crate::world::World;
use definitions::{Documents, EVENTS, inputs};
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
            deeds: self.deeds.clone(),
            scripts: self,
            evaluator,
        })
    }
}

impl Scripts for Plot {
    fn outcome(&self, wanted: &Wanted) -> Result<Outcome, String> {
        let mut dice = Dice::named(self.seed, wanted.path.as_str(), wanted.attempt);
        let queue_ms = if dice.chance(10) { dice.ms(0, 80) } else { 0 };
        let after_ms = dice.ms(0, 250);
        let defers = if dice.chance(15) { vec![("mail".to_owned(), json!({ "from": wanted.path, "attempt": wanted.attempt }))] } else { Vec::new() };
        let how = if dice.chance(self.trouble) { trouble(&mut dice) } else { Some(How::Returns(json!(wanted.path))) };
        Ok(Outcome { how, after_ms, queue_ms, defers })
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
