//! Opening and closing frames, and the indices that are kept in step with their states: who can move, what is due, what runs. What
//! follows an event is found in them, so that a run with thousands of frames takes no longer for it than a run with one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Calendar, Frame, FrameState, Phase, Run, ScriptState};
use crate::journal::Millis;
use crate::path::Path;

/// Which indices a frame is in.
#[derive(Default)]
struct Entry {
    movable: bool,
    due: Option<Millis>,
    flying: bool,
    spent: bool,
    timed: Option<Millis>,
    asking: bool,
}

impl Run {
    pub(crate) fn open(&mut self, path: Path, frame: Frame) {
        self.frames.insert(path.clone(), frame);
        self.reindex(&path);
    }

    pub(crate) fn close(&mut self, path: &Path) -> Option<Frame> {
        self.file(path, &Entry::default());
        let closed = self.frames.remove(path)?;
        if let FrameState::Undoing(_, undo) = &closed.state {
            self.hand_back(&undo.undoing);
        }
        Some(closed)
    }

    /// Closes every frame.
    pub(crate) fn close_all(&mut self) {
        for set in [&mut self.movable, &mut self.flying, &mut self.spent, &mut self.asking] {
            set.clear();
        }
        for calendar in [&mut self.due, &mut self.timed] {
            Calendar::clear(calendar);
        }
        self.stops.clear();
        let frames = std::mem::take(&mut self.frames);
        for frame in frames.values() {
            if let FrameState::Undoing(_, undo) = &frame.state {
                self.hand_back(&undo.undoing);
            }
        }
    }

    /// Closes the frames of the entry at `path`: the one at that very path, and all beneath it.
    pub(crate) fn close_inside(&mut self, path: &Path) {
        for inner in self.beneath(path) {
            self.close(&inner);
            self.stops.remove(&inner);
        }
        self.close(path);
        self.stops.remove(path);
    }

    /// The paths of the frames beneath `path`, not the one at it.
    pub(crate) fn beneath(&self, path: &Path) -> Vec<Path> {
        inside(&self.frames, path)
    }

    /// Changes a frame's state.
    pub(crate) fn set_state(&mut self, path: &Path, state: FrameState) {
        if let Some(frame) = self.frames.get_mut(path) {
            frame.state = state;
            self.reindex(path);
        }
    }

    /// Brings the indices in step with a frame's state.
    pub(crate) fn reindex(&mut self, path: &Path) {
        let Some(frame) = self.frames.get(path) else { return };
        let entry = self.entry_of(frame);
        self.file(path, &entry);
    }

    fn entry_of(&self, frame: &Frame) -> Entry {
        match &frame.state {
            FrameState::At(_) | FrameState::Done(_) | FrameState::Broken(..) => Entry { movable: true, ..Entry::default() },
            FrameState::Script(_, script) => match script.phase {
                Phase::Exhausted(_) => Entry { movable: true, ..Entry::default() },
                Phase::Attention(_) => Entry { asking: true, ..Entry::default() },
                Phase::Due { .. } | Phase::InFlight { .. } | Phase::Resolving(..) => self.busy(frame, script.job()),
            },
            FrameState::Undoing(_, undo) => match &undo.undoing.job {
                Some((_, job)) => self.busy(frame, job),
                None => Entry { movable: true, ..Entry::default() },
            },
            FrameState::Inside(_, container) => Entry { movable: container.is_movable(), timed: container.deadline(), ..Entry::default() },
            FrameState::Waiting(_, wait) => Entry { timed: wait.next(), ..Entry::default() },
        }
    }

    /// A frame with attempts: one is due or in flight.
    fn busy(&self, frame: &Frame, job: &ScriptState) -> Entry {
        let due = job.phase.due();
        Entry { due, flying: job.is_in_flight(), spent: due.is_some() && self.has_no_time(frame), ..Entry::default() }
    }

    fn file(&mut self, path: &Path, entry: &Entry) {
        index(&mut self.movable, path, entry.movable);
        index(&mut self.flying, path, entry.flying);
        index(&mut self.spent, path, entry.spent);
        index(&mut self.asking, path, entry.asking);
        self.due.set(path, entry.due);
        self.timed.set(path, entry.timed);
    }
}

fn index(set: &mut BTreeSet<Path>, path: &Path, member: bool) {
    if !member {
        set.remove(path);
    } else if !set.contains(path) {
        set.insert(path.clone());
    }
}

/// The keys that lie inside `path`, not the one at it.
pub(super) fn inside<V>(map: &BTreeMap<Path, V>, path: &Path) -> Vec<Path> {
    let mut found = Vec::new();
    for prefix in path.inner_prefixes() {
        let from = map.range(Path::from(prefix.as_str())..).map(|(path, _)| path);
        found.extend(from.take_while(|path| path.as_str().starts_with(&prefix)).cloned());
    }
    found
}
