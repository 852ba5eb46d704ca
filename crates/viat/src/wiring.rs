//! The only place where parts are chosen: which store, which languages, how scripts run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use viat_dialect::Languages;
use viat_runner::assets;
use viat_runner::driver::{Driver, NewRun, Observer, Rehearsal, Setup, Witness};
use viat_runner::logs::Logs;
use viat_runner::resources::{self, Keys};
use viat_runner::script::environments::{Environments, Tools};
use viat_runner::script::http::Hosts;
use viat_runner::script::{Interpreter, Language, Limits, Node, NodeFinder, Profile, RunnerConfig};
use viat_store::{At, SqliteStore, Store};

use crate::audit::{Actor, Change};
use crate::cli::build;
use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::observe::{Ear, Exporter, Metrics, settings};

/// The default execution deadline of active time, in milliseconds.
const EXECUTION_DEADLINE_MS: u64 = 1_800_000;
/// The variable that sets it, in seconds.
pub const EXECUTION_DEADLINE: &str = "VIAT_EXECUTION_DEADLINE_SECONDS";
/// The variable that names what scripts may see of the environment.
pub const SCRIPT_ENV: &str = "VIAT_SCRIPT_ENV";

/// The variable that says how far scripts are kept from the machine.
pub const PROFILE: &str = "VIAT_PROFILE";
/// The variable that says what any script gets at most.
const SCRIPT_LIMITS: &str = "VIAT_SCRIPT_LIMITS";

/// The variable that says how many workers there may be in all.
const MAX_WORKERS: &str = "VIAT_MAX_WORKERS";

/// The variables that name the interpreters.
const PYTHON: &str = "VIAT_PYTHON";
const NODE: &str = "VIAT_NODE";
/// The variables that name what builds environments.
const UV: &str = "VIAT_UV";
const NPM: &str = "VIAT_NPM";
/// The variables that say which hosts `http` scripts may ask.
const HTTP_ALLOW: &str = "VIAT_HTTP_ALLOW";
const HTTP_DENY: &str = "VIAT_HTTP_DENY";

/// How an engine works.
#[derive(Default)]
pub struct Mode {
    /// Skip waits while nothing real is running.
    pub fast_forward: bool,
    /// What is done in the world's place.
    pub rehearsal: Rehearsal,
    /// Take over what others left, start deferred tasks, keep long waits in the store.
    pub background: bool,
    /// Only write down what is told: nothing starts here.
    pub hands_off: bool,
    /// Hears the news of all runs.
    pub observer: Option<Observer>,
    /// Counts and times what happens.
    pub metrics: Option<Arc<Metrics>>,
    /// Sends spans where the environment says so; what goes wrong with that is noted here. A rehearsal sends none.
    pub spans: Option<Output>,
}

impl Mode {
    /// An engine whose spans are sent where the environment says so.
    pub fn traced(output: &Output) -> Mode {
        Mode { spans: Some(output.clone()), ..Mode::default() }
    }
}

/// An opened embedded home.
pub struct Home {
    /// Its folder.
    pub folder: PathBuf,
    /// Where it remembers.
    pub store: Arc<dyn Store>,
    /// Who changes something in it.
    pub actor: Actor,
    /// How far scripts are kept from the machine, where that was said for this process.
    profile: Option<Profile>,
}

impl Home {
    /// Opens the home, making it if it is not there.
    pub fn open(folder: &Path) -> Result<Home, CliError> {
        let store = SqliteStore::open(folder).map_err(CliError::store)?;
        Ok(Home { folder: folder.to_path_buf(), store: Arc::new(store), actor: Actor::at_the_keyboard(), profile: None })
    }

    /// The same store and folder, for a caller of the server.
    pub fn for_caller(folder: &Path, store: &Arc<dyn Store>, actor: Actor) -> Home {
        Home { folder: folder.to_path_buf(), store: Arc::clone(store), actor, profile: None }
    }

    /// The same home, its scripts kept from the machine as far as this says.
    pub fn with_profile(&self, profile: Profile) -> Home {
        Home { folder: self.folder.clone(), store: Arc::clone(&self.store), actor: self.actor.clone(), profile: Some(profile) }
    }

    /// How far scripts are kept from the machine: as was said for this process, else as `VIAT_PROFILE` says; who works on a home of
    /// his own trusts what he has put there.
    pub fn profile(&self) -> Result<Profile, CliError> {
        match self.profile {
            Some(profile) => Ok(profile),
            None => Ok(profile_of_environment()?.unwrap_or_default()),
        }
    }

    /// Notes a change that has been made already.
    pub fn note(&self, change: Change) -> Result<(), CliError> {
        change.note(self.store.as_ref(), &self.actor)
    }

    /// Attempts' logs.
    pub fn logs(&self) -> Logs {
        Logs::at(self.folder.join("logs"))
    }

    /// The Python that scripts run in.
    pub fn interpreter(&self) -> Result<Interpreter, CliError> {
        Interpreter::resolve(&self.folder.join("cache"), named(PYTHON).as_deref()).map_err(|error| {
            CliError::usage(format!("no Python to run scripts with: {error}"))
                .help("install python3 (3.9 or newer), or name one in VIAT_PYTHON; `viat doctor` checks it")
        })
    }

    /// The Node that scripts run in.
    pub fn node(&self) -> Result<Node, CliError> {
        let help = "install node (18 or newer; Debian: apt-get install nodejs), or name one in VIAT_NODE; `viat doctor` checks it";
        match Node::resolve(&self.folder.join("cache"), named(NODE).as_deref()) {
            Ok(Some(node)) => Ok(node),
            Ok(None) => Err(CliError::usage("no Node to run scripts with: there is no node on PATH").help(help)),
            Err(error) => Err(CliError::usage(format!("no Node to run scripts with: {error}")).help(help)),
        }
    }

    /// The environments that scripts need.
    pub fn environments(&self) -> Environments {
        Environments::at(self.folder.join("environments"))
    }

    /// What environments are built with.
    pub fn tools(&self) -> Tools {
        let python = self.interpreter().ok().map(|interpreter| interpreter.path);
        let node = self.node().ok().map(|node| node.path);
        // who asks wrongly is told where scripts are run; nothing is built meanwhile
        let build_nothing = self.profile().unwrap_or(Profile::Strict) == Profile::Strict;
        let own = [self.folder.join("tools"), self.folder.join("tools/bin")];
        Tools {
            uv: Tools::find("uv", named(UV), &own, python.as_deref()),
            npm: Tools::find("npm", named(NPM), &own, node.as_deref()),
            python,
            node,
            build_nothing,
        }
    }

    /// How scripts are run on this home. A language that is not installed fails where it is used, unless it was named.
    pub fn scripts(&self) -> Result<RunnerConfig, CliError> {
        let python = match self.interpreter() {
            Err(error) if named(PYTHON).is_some() => return Err(error),
            found => found.ok(),
        };
        let mut scripts = RunnerConfig::new(python, self.folder.join("scratch"));
        scripts.node = NodeFinder::new(self.folder.join("cache"), named(NODE));
        scripts.environments = self.environments();
        if let Some(most) = max_workers()? {
            scripts.max_workers = most;
        }
        scripts.env_allow = script_env();
        scripts.profile = self.profile()?;
        scripts.most = most()?;
        let list = |name: &str| std::env::var(name).ok();
        scripts.hosts = Hosts::from_lists(list(HTTP_ALLOW).as_deref(), list(HTTP_DENY).as_deref());
        Ok(scripts)
    }

    /// What secrets are sealed with.
    pub fn keys(&self) -> Keys {
        let given = std::env::var_os(resources::GIVEN).filter(|text| !text.is_empty()).map(|text| text.to_string_lossy().into_owned());
        Keys::at(&self.folder).or_given(given, named(resources::NAMED))
    }

    /// Makes sure, before a run begins that somebody waits for, that what its scripts are written in is there.
    pub fn can_run(&self, new: &NewRun) -> Result<(), CliError> {
        let scripts = assets::scripts_of(&new.program);
        let known = scripts.iter().filter_map(|name| assets::script(self.store.as_ref(), name, At::Revision(new.revision)).ok());
        let languages: Vec<Language> = known.map(|code| code.language).collect();
        if languages.contains(&Language::Python) {
            self.interpreter()?;
        }
        if languages.contains(&Language::JavaScript) {
            self.node()?;
        }
        Ok(())
    }

    /// An engine on this home, for runs that somebody waits for.
    pub fn driver(&self, output: &Output) -> Result<Driver, CliError> {
        self.engine(Mode::traced(output))
    }

    /// An engine on this home that tells runs something and starts nothing: whoever takes them up goes on with them.
    pub fn scribe(&self, output: &Output) -> Result<Driver, CliError> {
        self.engine(Mode { hands_off: true, spans: Some(output.clone()), ..Mode::default() })
    }

    /// An engine on this home.
    pub fn engine(&self, mode: Mode) -> Result<Driver, CliError> {
        if !mode.hands_off {
            build::take_up(self);
        }
        // What dead engines left behind besides their runs; it is in nobody's way, so a failure can wait.
        let _ = self.store.sweep_owners();
        let setup = Setup {
            store: Arc::clone(&self.store),
            lease: self.store.lease().map_err(CliError::store)?,
            scripts: self.scripts()?,
            keys: self.keys(),
            languages: Arc::new(Languages::default()),
            logs: self.logs(),
            fast_forward: mode.fast_forward,
            rehearsal: mode.rehearsal,
            background: mode.background,
            hands_off: mode.hands_off,
            active_budget_ms: execution_deadline_ms().0,
            observer: mode.observer,
            witness: witness(mode.metrics, mode.spans),
        };
        Driver::start(setup).map_err(CliError::driver)
    }
}

/// Whoever counts, times and sends, if anybody does.
fn witness(metrics: Option<Arc<Metrics>>, spans: Option<Output>) -> Option<Arc<dyn Witness>> {
    let exporter = spans.and_then(|output| exporter(metrics.as_ref(), output));
    if metrics.is_none() && exporter.is_none() {
        return None;
    }
    Some(Arc::new(Ear { metrics, exporter }))
}

/// Spans that cannot be sent are no reason not to work; it is said.
fn exporter(metrics: Option<&Arc<Metrics>>, output: Output) -> Option<Exporter> {
    let warn = move |problem: &str| output.note(&format!("{} {problem}", output.paint("33;1", "warning:")));
    let settings = match settings::from_environment() {
        Ok(settings) => settings?,
        Err(problem) => {
            warn(&format!("no spans are sent: {problem}"));
            return None;
        }
    };
    let counts = metrics.map(|metrics| Arc::clone(&metrics.spans)).unwrap_or_default();
    let failed = warn.clone();
    match Exporter::start(settings, counts, Box::new(warn)) {
        Ok(exporter) => Some(exporter),
        Err(error) => {
            failed(&format!("no spans are sent: {error}"));
            None
        }
    }
}

/// A program that a variable names.
fn named(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// How many workers there may be in all, if the variable says so.
fn max_workers() -> Result<Option<usize>, CliError> {
    let Some(text) = std::env::var_os(MAX_WORKERS).filter(|text| !text.is_empty()) else { return Ok(None) };
    match text.to_str().and_then(|text| text.trim().parse().ok()).filter(|most| (1..=10_000).contains(most)) {
        Some(most) => Ok(Some(most)),
        None => Err(CliError::usage(format!("{MAX_WORKERS} is {text:?}, which is not a number from 1 to 10000"))),
    }
}

/// The profile that the environment names.
pub fn profile_of_environment() -> Result<Option<Profile>, CliError> {
    let Some(text) = std::env::var_os(PROFILE).filter(|text| !text.is_empty()) else { return Ok(None) };
    let profile = text.to_str().and_then(Profile::of);
    profile.map(Some).ok_or_else(|| CliError::usage(format!("{PROFILE} is {text:?}; it is trusted or strict")))
}

/// What the operator gives any script at most.
fn most() -> Result<Limits, CliError> {
    let text = std::env::var(SCRIPT_LIMITS).unwrap_or_default();
    Limits::of_list(&text).map_err(|problem| CliError::usage(format!("{SCRIPT_LIMITS}: {problem}")))
}

fn script_env() -> Vec<String> {
    let names = std::env::var(SCRIPT_ENV).unwrap_or_default();
    names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The default execution deadline in milliseconds, and a warning if the variable that sets it makes no sense.
///
/// A bad value falls back to the default, never to no limit.
pub fn execution_deadline_ms() -> (u64, Option<String>) {
    let Some(text) = std::env::var_os(EXECUTION_DEADLINE) else { return (EXECUTION_DEADLINE_MS, None) };
    let text = text.to_string_lossy().into_owned();
    match text.trim().parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds > 0.0 && seconds * 1000.0 < u64::MAX as f64 => (((seconds * 1000.0).round() as u64).max(1), None),
        _ if text.is_empty() => (EXECUTION_DEADLINE_MS, None),
        _ => {
            let warning =
                format!("{EXECUTION_DEADLINE} is {text:?}, which is not a positive number of seconds: the default of {} s holds", EXECUTION_DEADLINE_MS / 1000);
            (EXECUTION_DEADLINE_MS, Some(warning))
        }
    }
}
