//! The driver: one loop, one closed message enum. It feeds runs what happens and does what is outstanding.
//!
//! For each run: decide, append with the expected version, and only when that is durable act on it. While an append is
//! under way, what happens to the run waits in its backlog and shares the next one. Many runs' appends share one fsync
//! in the store's writer. An attempt that follows at once on an idle worker is started in the same append as the end of
//! the one before it: one fsync a step.

mod adopt;
mod attempts;
mod commit;
mod handle;
mod hot;
mod park;
mod rehearse;
mod reviews;
mod tasks;

pub use attempts::failure_of;
pub use rehearse::{Injected, Injection, Mock, Rehearsal};
pub use reviews::{PENDING_REVIEW, WITHDRAWN};
pub use tasks::creation;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use viat_engine::expression::Evaluate;
use viat_engine::journal::{Event, Millis};
use viat_engine::{Input, Rejection, decide, has_more};
use viat_store::{Lease, OwnerId, RunId, Store};

use crate::clock::Clock;
use crate::logs::Logs;
use crate::resources::{Keys, Vault};
use crate::script::{Pools, RunnerConfig};

pub use handle::{Driver, DriverError, NewRun, News, NewsSender, Observer, RUN_KEYS, RunKey, Witness};
pub(crate) use handle::{Message, Reply};
use hot::{Hot, Pending};

/// How long a cancelled attempt may take to end by itself.
pub const CANCEL_GRACE: Duration = Duration::from_secs(5);

/// What has happened to a run goes into one append up to about this size; the rest waits for the next.
const MAX_APPEND_BYTES: usize = 16 << 20;
/// What people may ask of one run while an append of it is under way; of more they are told to come again.
const MAX_BACKLOG: usize = 1_000;
/// How many messages are heard before what they say is decided; attempts get their turn in between.
const AT_ONCE: usize = 256;

/// What a driver is made of.
pub struct Setup {
    /// Where runs are remembered.
    pub store: Arc<dyn Store>,
    /// Proof that this engine lives; its runs carry its owner's id.
    pub lease: Lease,
    /// How scripts are run.
    pub scripts: RunnerConfig,
    /// What secrets are opened with.
    pub keys: Keys,
    /// Evaluates expressions.
    pub languages: Arc<dyn Evaluate>,
    /// Where attempts' logs go.
    pub logs: Logs,
    /// Skip waits while nothing real is running.
    pub fast_forward: bool,
    /// What is done in the world's place.
    pub rehearsal: Rehearsal,
    /// Whether this engine works in the background: it takes over what others left, starts deferred tasks, and keeps long
    /// waits in the store instead of in memory.
    pub background: bool,
    /// Whether this engine only writes down what it is told: no attempt starts in it.
    pub hands_off: bool,
    /// The default execution deadline of active time, for runs that have no budget of their own.
    pub active_budget_ms: u64,
    /// Hears everything.
    pub observer: Option<Observer>,
    /// Hears what is counted and timed.
    pub witness: Option<Arc<dyn Witness>>,
}

/// The driver's state. It lives on one thread.
pub(crate) struct Loop {
    store: Arc<dyn Store>,
    lease: Lease,
    pools: Pools,
    vault: Arc<Vault>,
    languages: Arc<dyn Evaluate>,
    logs: Logs,
    clock: Clock,
    fast_forward: bool,
    rehearsal: Rehearsal,
    background: bool,
    hands_off: bool,
    active_budget_ms: u64,
    observer: Option<Observer>,
    witness: Option<Arc<dyn Witness>>,
    sender: mpsc::UnboundedSender<Message>,
    runs: BTreeMap<RunId, Hot>,
    timers: BTreeSet<(Millis, RunId)>,
    /// Runs to which something has happened that is to be decided.
    stirred: BTreeSet<RunId>,
    /// When the first of this engine's runs that are only in the store wants to be looked at.
    parked_wake: Option<Millis>,
    /// Runs that are being taken over, with what reached them meanwhile.
    adopting: BTreeMap<RunId, Vec<(Input, Reply<()>)>>,
    /// Until when what runs may finish, and who wants to hear that it has: nothing new starts any more.
    draining: Option<(Instant, Reply<()>)>,
}

impl Loop {
    fn new(setup: Setup, pools: Pools, sender: mpsc::UnboundedSender<Message>) -> Loop {
        Loop {
            vault: Arc::new(Vault::new(Arc::clone(&setup.store), setup.keys)),
            store: setup.store,
            lease: setup.lease,
            pools,
            languages: setup.languages,
            logs: setup.logs,
            clock: Clock::start(),
            fast_forward: setup.fast_forward,
            rehearsal: setup.rehearsal,
            background: setup.background,
            hands_off: setup.hands_off,
            active_budget_ms: setup.active_budget_ms,
            observer: setup.observer,
            witness: setup.witness,
            parked_wake: None,
            adopting: BTreeMap::new(),
            draining: None,
            sender,
            runs: BTreeMap::new(),
            timers: BTreeSet::new(),
            stirred: BTreeSet::new(),
        }
    }

    /// Runs until it is told to stop, or nobody can tell it anything any more.
    async fn run(mut self, mut messages: mpsc::UnboundedReceiver<Message>) {
        loop {
            self.fire_timers();
            if self.fast_forward && messages.is_empty() {
                self.skip_idle_time();
            }
            if self.is_drained() {
                return self.shut_down().await;
            }
            let message = tokio::select! {
                biased;
                message = messages.recv() => message,
                () = sleep(self.pause()) => continue,
            };
            let Some(message) = message else { return self.shut_down().await };
            self.handle(message);
            // What came at the same time shares an append: the end of an attempt, and the worker that it sets free for the next.
            for _ in 0..AT_ONCE {
                match messages.try_recv() {
                    Ok(message) => self.handle(message),
                    Err(_) => break,
                }
            }
            self.decide_stirred();
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Start { new, news, reply } => self.start(*new, news, reply),
            Message::Adopt { run, news, reply } => self.adopt(run, news, reply),
            Message::Adoptable { id, found, news, reply } => self.adoptable(id, found, news, reply),
            Message::Sweep => self.sweep(),
            Message::Input { run, input, news, reply } => self.external(run, input, news, reply),
            Message::Reserved { run, path, attempt, outcome } => self.happened(&run, Pending::Reserved { path, attempt, outcome }),
            Message::Finished { run, path, id, report } => self.finished(&run, path, id, *report),
            Message::Noticed { run, path, id, notice } => self.noticed(&run, path, id, notice),
            Message::Committed { run, result } => self.committed(&run, result),
            Message::Retry { run } => self.retry(&run),
            Message::Shutdown { grace, reply } => self.draining = Some((Instant::now() + grace, reply)),
        }
    }

    fn external(&mut self, run: RunId, input: Input, news: Option<NewsSender>, reply: Reply<()>) {
        match self.runs.get_mut(&run) {
            Some(hot) if hot.run.status.is_terminal() && !wakes(&input) => reply.send(Err(DriverError::Ended)),
            Some(hot) if hot.backlog.len() >= MAX_BACKLOG => reply.send(Err(DriverError::Crowded)),
            Some(hot) => {
                hot.news = news.or(hot.news.take());
                self.happened(&run, Pending::Asked(input, reply));
            }
            None => self.reach(run, input, news, reply),
        }
    }

    /// Whether attempts may start here now.
    fn starts_nothing(&self) -> bool {
        self.hands_off || self.draining.is_some()
    }

    /// Something happened to a run: it is decided with what else is known by then, or waits for the append that is under way.
    fn happened(&mut self, id: &RunId, pending: Pending) {
        let Some(hot) = self.runs.get_mut(id) else { return };
        hot.backlog.push_back(pending);
        if hot.commit.is_none() {
            self.stirred.insert(id.clone());
        }
    }

    /// Decides what has happened to runs since the last time.
    fn decide_stirred(&mut self) {
        while let Some(id) = self.stirred.pop_first() {
            let Some(mut hot) = self.runs.remove(&id) else { continue };
            if hot.commit.is_none() {
                self.catch_up(&mut hot);
            }
            self.keep(hot);
        }
    }

    /// Decides everything in the run's backlog and begins one append for it.
    fn catch_up(&mut self, hot: &mut Hot) {
        let events = self.decide_backlog(hot);
        self.append(hot, events, self.clock.now());
    }

    fn decide_backlog(&mut self, hot: &mut Hot) -> Vec<Event> {
        let now = self.clock.now();
        let mut events = Vec::new();
        let mut bytes = 0;
        while bytes < MAX_APPEND_BYTES
            && let Some(pending) = hot.backlog.pop_front()
        {
            let decided = self.decide(hot, pending, now);
            bytes += decided.iter().map(Event::weight).sum::<usize>();
            events.extend(decided);
        }
        loop {
            events.extend(self.start_attempts(hot, now, bytes));
            // Beyond the bound of one decision the run yields: its append goes out, other runs get their turn.
            if !events.is_empty() || !has_more(&hot.run) {
                break;
            }
            events.extend(self.decide(hot, Pending::Input(Input::Continue), now));
        }
        self.submit_tasks(hot, &mut events, now);
        events
    }

    fn decide(&mut self, hot: &mut Hot, pending: Pending, now: Millis) -> Vec<Event> {
        let mut asked = None;
        let (input, held) = match pending {
            Pending::Input(input) => (input, None),
            Pending::Asked(input, reply) => {
                if let Input::Event { payload, .. } = &input
                    && let Err(problem) = hot.run.check_room(payload)
                {
                    reply.send(Err(DriverError::TooBig(problem)));
                    return Vec::new();
                }
                asked = Some(reply);
                (input, None)
            }
            Pending::Acknowledged(input, answer) => {
                hot.answers.push(answer);
                (input, None)
            }
            Pending::Reserved { path, attempt, outcome } => match self.reserved(hot, path, attempt, outcome) {
                Some((input, held)) => (input, held),
                None => return Vec::new(),
            },
        };
        // What is due comes before what a person asks.
        let tick = input.may_be_refused() && !hot.run.status.is_terminal();
        let review = if let Input::Decide { review, .. } = &input { Some(review.clone()) } else { None };
        let mut events = if tick { decide(&mut hot.run, Input::Tick, now, self.languages.as_ref()).unwrap_or_default() } else { Vec::new() };
        match decide(&mut hot.run, input, now, self.languages.as_ref()) {
            Ok(decided) => {
                hot.starts.extend(held);
                hot.replies.extend(asked);
                if decided.iter().any(|event| matches!(event, Event::Migrated { .. })) {
                    hot.scripts.clear();
                }
                events.extend(decided);
                events
            }
            // A late report changes nothing, a reservation that nobody wants any more goes back to its pool.
            Err(rejection) => {
                match (asked, rejection, review) {
                    (Some(reply), rejection, _) => reply.send(Err(rejection.into())),
                    (None, Rejection::Refused(why), Some(review)) => self.undecided(hot, &review, &why),
                    (None, ..) => {}
                }
                events
            }
        }
    }

    /// Puts the run back, with its timer set.
    fn keep(&mut self, mut hot: Hot) {
        if let Some(timer) = hot.timer.take() {
            self.timers.remove(&timer);
        }
        if hot.commit.is_none() && hot.run.status.is_terminal() && hot.backlog.is_empty() {
            return;
        }
        if self.park(&hot) {
            return;
        }
        // While an append is under way nothing is decided; when it is durable everything due is looked at anyway.
        // A driver that is ending or only writes starts nothing, so nothing that is due concerns it any more.
        let wake = if hot.commit.is_none() && !self.starts_nothing() { hot.next_wake() } else { None };
        hot.timer = wake.map(|at| (at, hot.id.clone()));
        self.timers.extend(hot.timer.clone());
        self.runs.insert(hot.id.clone(), hot);
    }

    fn fire_timers(&mut self) {
        let now = self.clock.now();
        // What falls due again at once gets its turn after the messages that are waiting.
        let due: Vec<(Millis, RunId)> = self.timers.iter().take_while(|(at, _)| *at <= now).cloned().collect();
        for timer in due {
            self.timers.remove(&timer);
            self.happened(&timer.1, Pending::Input(Input::Tick));
        }
        self.decide_stirred();
        if self.draining.is_none() && self.parked_wake.is_some_and(|at| at <= now) {
            self.wake_parked(now);
        }
    }

    /// How long nothing will happen unless a message comes.
    fn pause(&self) -> Option<Duration> {
        let parked = self.parked_wake.filter(|_| self.draining.is_none());
        let timers = self.timers.first().map(|(at, _)| *at).into_iter().chain(parked);
        let drain = self.draining.as_ref().map(|(until, _)| until.saturating_duration_since(Instant::now()));
        timers.map(|at| self.clock.until(at)).chain(drain).min()
    }

    /// Whether this engine was told to end, and what ran has finished or had its time.
    fn is_drained(&self) -> bool {
        let Some((until, _)) = &self.draining else { return false };
        *until <= Instant::now() || !self.runs.values().any(|hot| hot.commit.is_some() || !hot.flights.is_empty())
    }

    /// Nothing real is running anywhere: the next thing that time alone changes is due now.
    fn skip_idle_time(&mut self) {
        if self.runs.values().any(Hot::is_at_work) {
            return;
        }
        if let Some((at, _)) = self.timers.first() {
            self.clock.skip_to(*at);
            self.fire_timers();
        }
    }

    fn owner(&self) -> &OwnerId {
        self.lease.owner()
    }

    async fn shut_down(self) {
        self.pools.shutdown().await;
        if let Some((_, reply)) = self.draining {
            reply.send(Ok(()));
        }
    }
}

/// Whether an input is for runs that have ended, too.
fn wakes(input: &Input) -> bool {
    matches!(input, Input::Resume { .. } | Input::Compensate { .. } | Input::Migrate { .. })
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}
