//! What must hold of effects and of people: undoing goes backwards, one effect at a time, and leaves out none; the ledger is what
//! the world really looks like; a review is decided once.

use std::collections::{BTreeMap, BTreeSet};

use viat_engine::ir::CompensationMode;
use viat_engine::journal::{Event, Millis, Undo, UndoScript};
use viat_engine::path::{Path, Purpose};
use viat_engine::record::LedgerStatus;

use crate::world::World;

/// Checks a journal and the world that it is about.
pub fn check(world: &World<'_>, events: &[(Millis, &Event)]) -> Result<(), String> {
    reviews_are_decided_once(events)?;
    let mut books = Books { auto: world.run.program.main.compensation == CompensationMode::Auto, ..Books::default() };
    events.iter().try_for_each(|(_, event)| books.pass(event))?;
    the_ledger_is_the_world(world, events)
}

fn reviews_are_decided_once(events: &[(Millis, &Event)]) -> Result<(), String> {
    let mut open: BTreeSet<&Path> = BTreeSet::new();
    for (_, event) in events {
        match event {
            Event::ReviewRequested { path, .. } => {
                open.insert(path);
            }
            Event::ReviewDecided { path, .. } if !open.remove(path) => return Err(format!("{path} was decided, and it was not open")),
            Event::ReviewReminded { path, .. } | Event::ReviewExtended { path, .. } if !open.contains(path) => {
                return Err(format!("{event:?}, and it was not open"));
            }
            Event::Resumed { .. } | Event::CompensationStarted { .. } => open.clear(),
            _ => {}
        }
    }
    Ok(())
}

/// How an effect can be undone that nobody has tried to undo for good.
#[derive(Default)]
struct Books {
    auto: bool,
    /// By entry: the place of its effect in the order of completion.
    order: BTreeMap<Path, usize>,
    completed: usize,
    undoable: BTreeSet<Path>,
    may_repeat: BTreeSet<Path>,
    /// While the run undoes its effects as its last act: the one whose turn it was last.
    ending: Option<Option<Path>>,
    in_flight: BTreeSet<Path>,
}

impl Books {
    fn pass(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::AttemptSucceeded { path, .. } if path.purpose() == Purpose::Work => self.complete(path),
            Event::Resolved { path, output: Some(_), .. } | Event::Settled { path, output: Some(_), .. } => self.complete(path),
            Event::CompensationPrepared { path, undo } => self.prepare(path, undo),
            Event::CompensateEntered { path, effects, .. } => {
                let order: Vec<usize> = effects.iter().map(|effect| self.place(effect)).collect::<Result<_, _>>()?;
                if !order.is_sorted_by(|newer, older| newer > older) {
                    return Err(format!("{path} undoes {effects:?}, which completed in the order {order:?}"));
                }
            }
            Event::CompensationStarted { .. } => self.ending = Some(None),
            Event::CompensationEntered { path } => self.turn(path)?,
            Event::EffectIrreversible { path } | Event::CompensationFailed { path, .. } => {
                self.turn(path)?;
                self.undoable.remove(path);
            }
            Event::AttemptStarted { path, .. } if path.purpose() == Purpose::Compensate => {
                self.in_flight.insert(path.clone());
                if self.ending.is_some() && self.in_flight.len() > 1 {
                    return Err(format!("{:?} are undone at the same time", self.in_flight));
                }
            }
            Event::AttemptSucceeded { path, .. } if path.purpose() == Purpose::Compensate => {
                self.in_flight.remove(path);
                self.undoable.remove(&path.entry());
            }
            Event::AttemptFailed { path, decision, .. } if path.purpose() == Purpose::Compensate => {
                self.in_flight.remove(path);
                let handed_back = self.ending.is_none() && decision.is_cut_short() && self.may_repeat.contains(&path.entry());
                if decision.retry_wait_ms().is_none() && !handed_back {
                    self.undoable.remove(&path.entry());
                }
            }
            Event::Failed { .. } | Event::Cancelled { .. } if (self.auto || self.ending.is_some()) && !self.undoable.is_empty() => {
                return Err(format!("the run has ended, and nobody undid {:?}", self.undoable));
            }
            Event::Resumed { .. } => self.ending = None,
            _ => {}
        }
        Ok(())
    }

    fn complete(&mut self, path: &Path) {
        self.completed += 1;
        self.order.insert(path.clone(), self.completed);
    }

    fn prepare(&mut self, path: &Path, undo: &Undo) {
        self.undoable.insert(path.clone());
        self.may_repeat.remove(path);
        if let Undo::Script(UndoScript { retry, idempotent, .. }) = undo
            && (*idempotent || !retry.is_empty())
        {
            self.may_repeat.insert(path.clone());
        }
    }

    fn place(&self, effect: &Path) -> Result<usize, String> {
        self.order.get(effect).copied().ok_or_else(|| format!("{effect} is undone, and it never completed"))
    }

    /// It is the turn of this effect: in the run's last act, none that completed later follows it.
    fn turn(&mut self, path: &Path) -> Result<(), String> {
        let place = self.place(path)?;
        let Some(last) = self.ending.as_mut() else { return Ok(()) };
        if let Some(before) = last.replace(path.clone()) {
            let same = before == *path;
            if !same && self.order.get(&before).is_none_or(|before| place >= *before) {
                return Err(format!("{path} is undone after {before}, which completed earlier"));
            }
        }
        Ok(())
    }
}

/// What the ledger says is in place is in place, and the other way round, but for attempts that nobody heard of any more.
fn the_ledger_is_the_world(world: &World<'_>, events: &[(Millis, &Event)]) -> Result<(), String> {
    let mut unheard: BTreeSet<Path> = BTreeSet::new();
    let mut resumed = false;
    for (_, event) in events {
        match event {
            Event::AttemptCancelled { path, .. } => drop(unheard.insert(path.entry())),
            Event::ResolveEntered { path, .. } => drop(unheard.insert(path.clone())),
            Event::Resolved { path, .. } | Event::Settled { path, .. } => drop(unheard.remove(path)),
            Event::Resumed { .. } => resumed = true,
            _ => {}
        }
    }
    let truth = &world.effects;
    let effects = world.run.effects();
    let known = effects.iter().filter(|effect| effect.status != LedgerStatus::Compensated);
    let known: BTreeSet<&Path> = known.map(|effect| &effect.path).collect();
    if let Some(missing) = known.iter().find(|path| !truth.standing.contains(**path)) {
        return Err(format!("the ledger says that {missing} is in place, it is not"));
    }
    if let Some(stranded) = truth.standing.iter().find(|path| !known.contains(*path) && !unheard.contains(*path)) {
        return Err(format!("{stranded} is in place, the ledger does not say so"));
    }
    if let Some(path) = truth.undone_in_vain.first() {
        return Err(format!("{path} was undone twice"));
    }
    match truth.repeated.first() {
        Some(path) if !resumed => Err(format!("{path} took effect twice")),
        _ => Ok(()),
    }
}
