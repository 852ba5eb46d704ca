//! Jobs: the attempts that the world owes a run, of entries, of their `resolve`, and of what undoes their effects.

use crate::ir::{Op, Resolve};
use crate::key;
use crate::path::{Path, Purpose};
use crate::policies::retry::RetryRule;
use crate::run::{Frame, FrameState, Phase, Run, ScriptState, Undoing};

/// Attempts that are due or in flight.
pub(crate) struct Job<'a> {
    /// The attempts' path: the entry's, or one derived from it.
    pub path: Path,
    /// The entry whose being stopped stops them; `None`: only the run's own undoing, which has its own time.
    pub home: Option<Path>,
    pub state: &'a ScriptState,
    pub script: &'a str,
    pub timeout_ms: Option<u64>,
}

impl Run {
    /// The attempts at `path`, if they are live.
    pub(crate) fn job_at(&self, path: &Path) -> Option<&ScriptState> {
        match path.purpose() {
            Purpose::Work => self.script_at(path),
            Purpose::Resolve(of) => match &self.script_at(&path.entry())?.phase {
                Phase::Resolving(unsettled, job) if unsettled.attempt == of => Some(job),
                _ => None,
            },
            Purpose::Compensate => {
                let effect = path.entry();
                let (current, job) = self.undoing_of(&effect)?.job.as_ref()?;
                (*current == effect).then_some(job)
            }
        }
    }

    /// Changes the attempts at `path`.
    pub(crate) fn change_job(&mut self, path: &Path, change: impl FnOnce(&mut ScriptState)) {
        match path.purpose() {
            Purpose::Work => self.change_script(path, change),
            Purpose::Resolve(of) => self.change_script(&path.entry(), |script| match &mut script.phase {
                Phase::Resolving(unsettled, job) if unsettled.attempt == of => change(job),
                _ => {}
            }),
            Purpose::Compensate => {
                let effect = path.entry();
                self.change_undoing(&effect, |undoing| match &mut undoing.job {
                    Some((current, job)) if *current == effect => change(job),
                    _ => {}
                });
            }
        }
    }

    pub(crate) fn change_script(&mut self, path: &Path, change: impl FnOnce(&mut ScriptState)) {
        let Some((frame_path, _)) = self.locate(path) else { return };
        if let Some(FrameState::Script(_, script)) = self.frames.get_mut(&frame_path).map(|frame| &mut frame.state) {
            change(script);
        }
        self.reindex(&frame_path);
    }

    /// What undoes the effect of the entry at `effect` at present.
    pub(crate) fn undoing_of(&self, effect: &Path) -> Option<&Undoing> {
        match self.undo_jobs.get(effect)? {
            None => Some(&self.undo.as_ref()?.undoing),
            Some(frame) => match &self.frames.get(frame)?.state {
                FrameState::Undoing(_, undo) => Some(&undo.undoing),
                _ => None,
            },
        }
    }

    pub(crate) fn change_undoing(&mut self, effect: &Path, change: impl FnOnce(&mut Undoing)) {
        match self.undo_jobs.get(effect).cloned() {
            None => {}
            Some(None) => {
                if let Some(undo) = &mut self.undo {
                    change(&mut undo.undoing);
                }
            }
            Some(Some(frame_path)) => {
                if let Some(FrameState::Undoing(_, undo)) = self.frames.get_mut(&frame_path).map(|frame| &mut frame.state) {
                    change(&mut undo.undoing);
                }
                self.reindex(&frame_path);
            }
        }
    }

    /// Every job, in the order of the entries' paths; the run's own undoing last.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = Job<'_>> {
        let mut frames: Vec<&Path> = self.due.frames().chain(&self.flying).collect();
        frames.sort_unstable();
        self.jobs_of(frames).chain(self.own_job())
    }

    /// The jobs of these frames.
    pub(crate) fn jobs_of<'a>(&'a self, frames: impl IntoIterator<Item = &'a Path>) -> impl Iterator<Item = Job<'a>> {
        frames.into_iter().filter_map(|frame_path| self.job_in(frame_path, self.frames.get(frame_path)?))
    }

    /// The job of the run's own undoing.
    pub(crate) fn own_job(&self) -> Option<Job<'_>> {
        let (effect, job) = self.undo.as_ref()?.undoing.job.as_ref()?;
        self.undo_job(effect, None, job)
    }

    /// The job whose attempts are at `path`.
    pub(crate) fn job_named(&self, path: &Path) -> Option<Job<'_>> {
        let entry = path.entry();
        let job = match path.purpose() {
            Purpose::Work | Purpose::Resolve(_) => self.job_in(&entry.parent(), self.frames.get(&entry.parent())?),
            Purpose::Compensate => match self.undo_jobs.get(&entry)? {
                Some(frame_path) => self.job_in(frame_path, self.frames.get(frame_path)?),
                None => self.own_job(),
            },
        };
        job.filter(|job| job.path == *path)
    }

    /// The jobs that are due without there being any time for an attempt.
    pub(crate) fn spent_jobs(&self) -> impl Iterator<Item = Job<'_>> {
        let own = self.own_job().filter(|job| job.timeout_ms == Some(0));
        self.jobs_of(&self.spent).chain(own).filter(|job| !self.is_job_stopped(job))
    }

    /// Whether an attempt of the frame's job would have a budget of zero.
    pub(crate) fn has_no_time(&self, frame: &Frame) -> bool {
        let node = frame.state.node_number().and_then(|number| self.node(frame, number));
        let timeout_ms = match &frame.state {
            FrameState::Script(_, ScriptState { phase: Phase::Resolving(..), .. }) => node.and_then(|node| node.policy.resolve.as_ref()?.timeout_ms),
            FrameState::Script(..) => node.and_then(|node| node.policy.timeout.as_ref()).map(|timeout| timeout.ms),
            FrameState::Undoing(_, undo) => undo.undoing.job.as_ref().and_then(|(effect, _)| self.ledger.undo_script(effect)?.timeout_ms),
            _ => None,
        };
        timeout_ms == Some(0)
    }

    fn job_in<'a>(&'a self, frame_path: &Path, frame: &'a Frame) -> Option<Job<'a>> {
        let node = self.node(frame, frame.state.node_number()?)?;
        let path = frame_path.child(&node.id);
        match &frame.state {
            FrameState::Script(_, script) => match (&script.phase, &node.op, &node.policy.resolve) {
                (Phase::Resolving(unsettled, job), _, Some(resolve)) => {
                    let at = path.resolution(unsettled.attempt);
                    Some(Job { path: at, home: Some(path), state: job, script: &resolve.script, timeout_ms: resolve.timeout_ms })
                }
                (Phase::Due { .. } | Phase::InFlight { .. }, Op::Script(op), _) => {
                    let timeout_ms = node.policy.timeout.as_ref().map(|timeout| timeout.ms);
                    Some(Job { home: Some(path.clone()), path, state: script, script: &op.name, timeout_ms })
                }
                _ => None,
            },
            FrameState::Undoing(_, undo) => {
                let (effect, job) = undo.undoing.job.as_ref()?;
                self.undo_job(effect, Some(path), job)
            }
            _ => None,
        }
    }

    fn undo_job<'a>(&'a self, effect: &Path, home: Option<Path>, state: &'a ScriptState) -> Option<Job<'a>> {
        let undo = self.ledger.undo_script(effect)?;
        Some(Job { path: effect.compensation(), home, state, script: &undo.script, timeout_ms: undo.timeout_ms })
    }

    /// The `resolve` policy of the live entry at `path`.
    pub(crate) fn resolve_of(&self, path: &Path) -> Option<&Resolve> {
        self.entry(path)?.policy.resolve.as_deref()
    }

    /// The retry rules of the attempts at `path`.
    pub(crate) fn retry_rules(&self, path: &Path) -> Vec<RetryRule> {
        let rules = match path.purpose() {
            Purpose::Work => self.entry(path).map(|node| &node.policy.retry),
            Purpose::Resolve(_) => self.resolve_of(&path.entry()).map(|resolve| &resolve.retry),
            Purpose::Compensate => self.ledger.undo_script(&path.entry()).map(|undo| &undo.retry),
        };
        rules.cloned().unwrap_or_default()
    }

    /// Whether the attempts at `path` may be repeated after the engine died, whatever their retry rules say.
    pub(crate) fn is_idempotent(&self, path: &Path) -> bool {
        match path.purpose() {
            Purpose::Work => matches!(self.entry(path).map(|node| &node.op), Some(Op::Script(script)) if script.idempotent),
            // It only asks.
            Purpose::Resolve(_) => true,
            Purpose::Compensate => self.ledger.undo_script(&path.entry()).is_some_and(|undo| undo.idempotent),
        }
    }

    /// The key under which the effect of the attempts at `path` is known outside. What asks about an effect gets that effect's key.
    pub(crate) fn effect_key(&self, path: &Path, author: Option<&str>) -> String {
        let entry = path.entry();
        let generation = self.ledger.get(&entry).map_or(0, |entry| entry.generation);
        let of = if matches!(path.purpose(), Purpose::Resolve(_)) { &entry } else { path };
        author.map_or_else(|| key::idempotency(&self.created.run, of, generation), str::to_owned)
    }

    /// Whether the job is to be stopped: the run, or a container around it, is being ended; or the time for undoing is over.
    pub(crate) fn is_job_stopped(&self, job: &Job<'_>) -> bool {
        match &job.home {
            Some(home) => self.is_stopped(home),
            None => self.undo.as_ref().is_some_and(|undo| undo.expired),
        }
    }

    /// Whether this attempt is due and nothing keeps it from starting.
    pub(crate) fn may_start(&self, path: &Path, attempt: u32) -> bool {
        let kept = match path.purpose() {
            Purpose::Work => self.is_stopped(path),
            Purpose::Resolve(_) => self.is_stopped(&path.entry()),
            Purpose::Compensate => match self.undo_jobs.get(&path.entry()) {
                Some(Some(frame)) => self.stopping.is_some() || self.stops.keys().any(|stop| frame == stop || frame.is_inside(stop)),
                _ => self.undo.as_ref().is_none_or(|undo| undo.expired),
            },
        };
        !kept && self.is_due(path, attempt)
    }

    pub(crate) fn is_due(&self, path: &Path, attempt: u32) -> bool {
        self.job_at(path).is_some_and(|job| job.attempt == attempt && matches!(job.phase, Phase::Due { .. }))
    }

    pub(crate) fn is_in_flight(&self, path: &Path, attempt_id: &str) -> bool {
        self.job_at(path).is_some_and(|job| matches!(&job.phase, Phase::InFlight { id, .. } if id == attempt_id))
    }
}
