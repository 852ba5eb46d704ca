//! Fires schedules as long as a server runs: each fire time is dealt with in one unit of the store, together with the run that it
//! creates, so that it is dealt with exactly once whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use viat_engine::journal::Millis;
use viat_runner::clock::wall_now;
use viat_runner::driver::Driver;
use viat_store::{At, Op, Precondition, RunId, Store, Unit};

use super::plan::{self, Step, View, remember};
use super::{Fire, FireOutcome, Rhythm, SCHEDULE, ScheduleAsset, Standing, standing};
use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::start::{Request, Which, prepare, queued};

/// How often it is looked whether somebody changed a schedule, or a run has ended that one waits for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The most steps of one schedule at a time, so that the others get their turn.
const STEPS: usize = 200;

/// The thread that fires schedules.
pub struct Keeper {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

impl Keeper {
    /// Begins to fire.
    pub fn begin(store: Arc<dyn Store>, driver: Arc<Driver>, output: Output) -> Keeper {
        let (stop, stopped) = mpsc::channel();
        let mut watched = Watched { store, driver, output, revision: None, schedules: BTreeMap::new(), troubled: false };
        let thread = std::thread::spawn(move || {
            loop {
                let pause = watched.look();
                if !matches!(stopped.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        });
        Keeper { stop, thread }
    }

    /// Ends when what it is doing is done.
    pub fn end(self) {
        drop(self.stop);
        // A thread that panicked has said so.
        let _ = self.thread.join();
    }
}

struct Watched {
    store: Arc<dyn Store>,
    driver: Arc<Driver>,
    output: Output,
    /// The catalogue revision at which `schedules` was read.
    revision: Option<u64>,
    schedules: BTreeMap<String, Schedule>,
    troubled: bool,
}

struct Schedule {
    asset: ScheduleAsset,
    since: Millis,
    version: u64,
    rhythm: Rhythm,
    /// Not to be looked at before, unless somebody changes it.
    sleeps_until: Option<Millis>,
}

impl Watched {
    /// Does what is due, and says how long to wait. What is wrong with one schedule does not keep the others.
    fn look(&mut self) -> Duration {
        let mut trouble = self.read().err().map(|error| format!("schedules: {}", error.message()));
        let mut wake = Millis::MAX;
        let names: Vec<String> = self.schedules.keys().cloned().collect();
        for name in names {
            match self.deal(&name) {
                Ok(until) => wake = wake.min(until),
                Err(error) => trouble = Some(format!("schedule {name}: {}", error.message())),
            }
        }
        if let Some(trouble) = &trouble
            && !self.troubled
        {
            self.output.note(&format!("{trouble}; it is tried again"));
        }
        self.troubled = trouble.is_some();
        let pause = u64::try_from(wake.saturating_sub(wall_now())).unwrap_or(0);
        if self.troubled { LOOK_EVERY } else { Duration::from_millis(pause).min(LOOK_EVERY) }
    }

    /// Takes the steps of a schedule that are due; gives the time until which there is nothing more to do.
    fn deal(&mut self, name: &str) -> Result<Millis, CliError> {
        for _ in 0..STEPS {
            if let Some(until) = self.step(name, wall_now())? {
                return Ok(until);
            }
        }
        Ok(wall_now())
    }

    /// Reads the schedules anew if the catalogue has changed.
    fn read(&mut self) -> Result<(), CliError> {
        let revision = self.store.revision().map_err(CliError::store)?;
        if self.revision == Some(revision) {
            return Ok(());
        }
        let live = self.store.assets(Some(SCHEDULE), None).map_err(CliError::store)?;
        let mut schedules = BTreeMap::new();
        for info in live {
            let name = info.name.name.clone();
            if let Some(known) = self.schedules.remove(&name).filter(|known| known.version == info.version) {
                schedules.insert(name, known);
                continue;
            }
            let Some(found) = self.store.asset(&info.name, At::Version(info.version)).map_err(CliError::store)? else { continue };
            match understood(&found.body) {
                Ok((asset, rhythm)) => {
                    schedules.insert(name, Schedule { asset, since: info.at, version: info.version, rhythm, sleeps_until: None });
                }
                Err(problem) => self.output.note(&format!("schedule {name} does not fire: {problem}")),
            }
        }
        self.schedules = schedules;
        self.revision = Some(revision);
        Ok(())
    }

    /// Takes a step; the time until which there is nothing to do, if there is nothing to do now.
    fn step(&mut self, name: &str, now: Millis) -> Result<Option<Millis>, CliError> {
        let Some(schedule) = self.schedules.get(name) else { return Ok(Some(Millis::MAX)) };
        if let Some(until) = schedule.sleeps_until.filter(|until| *until > now) {
            return Ok(Some(until));
        }
        let known = standing(self.store.as_ref(), name)?;
        let (stands, before) = known.map_or_else(|| (Standing::default(), None), |(standing, bytes)| (standing, Some(bytes)));
        let busy = self.is_busy(&stands)?;
        let view = View { name, asset: &schedule.asset, since: schedule.since, rhythm: &schedule.rhythm, standing: &stands, busy };
        let step = plan::next(&view, now);
        match step {
            Step::Sleep(until) => {
                let until = until.unwrap_or(Millis::MAX);
                // One that waits for a run is looked at again soon.
                let sleeps_until = stands.waiting.is_empty().then_some(until);
                if let Some(schedule) = self.schedules.get_mut(name) {
                    schedule.sleeps_until = sleeps_until;
                }
                return Ok(Some(sleeps_until.unwrap_or(now + 1_000)));
            }
            Step::Note(standing) => self.keep(name, before, &standing, Vec::new())?,
            Step::Start { fire, standing } => self.fire(name, fire, before, standing)?,
        }
        Ok(None)
    }

    fn is_busy(&self, standing: &Standing) -> Result<bool, CliError> {
        let Some(run) = &standing.run else { return Ok(false) };
        let row = self.store.run(&RunId::from(run.as_str())).map_err(CliError::store)?;
        Ok(row.is_some_and(|row| row.summary.ended_at.is_none()))
    }

    fn fire(&self, name: &str, fire: Millis, before: Option<Vec<u8>>, mut standing: Standing) -> Result<(), CliError> {
        let Some(Schedule { asset, .. }) = self.schedules.get(name) else { return Ok(()) };
        let inputs = asset.inputs_at(name, fire);
        let request = Request { workflow: &asset.workflow, which: Which::Published, inputs: &inputs, timeout_ms: asset.timeout_ms };
        let made = prepare(self.store.as_ref(), &request).and_then(queued);
        let (id, ops) = match made {
            Ok(made) => made,
            // What is wrong with the store may get better; nothing else will.
            Err(error) if error.is_of_the_store() => return Err(error),
            Err(error) => {
                let detail = error.message().to_owned();
                self.output.note(&format!("schedule {name}: its run could not be started: {detail}"));
                remember(&mut standing, Fire { at: fire, outcome: FireOutcome::Failed, run: None, detail: Some(detail) });
                return self.keep(name, before, &standing, Vec::new());
            }
        };
        let run = Some(id.to_string());
        standing.run.clone_from(&run);
        remember(&mut standing, Fire { at: fire, outcome: FireOutcome::Started, run, detail: None });
        self.keep(name, before, &standing, ops)?;
        // If it cannot be begun with now, it is found with all that nobody owns.
        if self.driver.adopt(&id, None).is_err() {
            let _ = self.driver.recover();
        }
        Ok(())
    }

    /// Makes durable how the schedule stands, with what goes with it, unless somebody else has dealt with it meanwhile.
    fn keep(&self, name: &str, before: Option<Vec<u8>>, standing: &Standing, mut ops: Vec<Op>) -> Result<(), CliError> {
        let value = serde_json::to_vec(standing).map_err(|error| CliError::failed(error.to_string()))?;
        let (space, key) = (SCHEDULE.to_owned(), name.to_owned());
        let mut guard = Vec::new();
        if let Some(value) = before {
            guard.push(Precondition::KeyIs { space: space.clone(), key: key.clone(), value });
            ops.push(Op::DropKey { space: space.clone(), key: key.clone() });
        }
        ops.push(Op::ClaimKey { space, key, value });
        self.store.commit_blocking(Unit { guard, ops }).map(drop).map_err(CliError::store)
    }
}

fn understood(body: &[u8]) -> Result<(ScheduleAsset, Rhythm), String> {
    let asset: ScheduleAsset = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let rhythm = Rhythm::of(&asset.cron, &asset.timezone)?;
    Ok((asset, rhythm))
}
