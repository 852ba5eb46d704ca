//! The server: one router, served on a TCP port for programs and on a socket in the home for the command line.

pub mod access;
mod assets;
mod child;
mod commands;
pub mod desk;
mod documents;
mod endpoints;
mod events;
mod guard;
mod links;
mod metrics;
mod page;
mod pages;
mod pools;
mod problem;
mod progress;
mod rate;
mod recover;
mod reviews;
mod route;
mod routes;
mod runs;
mod shapes;
mod shelf;
mod take;
mod tokens;
mod waiters;

use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use viat_runner::driver::{Driver, News, Observer};
use viat_runner::script::Profile;
use viat_store::{Store, StoreError};

use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::observe::Metrics;
use crate::schedules::keeper::Keeper;
use crate::signature::Seen;
use crate::socket::{self, Place};
use crate::wiring::{Home, Mode};
pub use access::Door;
use access::{Bounds, Gate};
use commands::Commands;
pub use commands::{CommandBody, Kind, Want};
use events::Ears;
use progress::Listener;
use route::Route;
use waiters::Waiters;

/// How long attempts may finish when the server is told to end.
const DRAIN: Duration = Duration::from_secs(10);
/// How long open requests may take once the server is told to end.
const REQUESTS_END_WITHIN: Duration = Duration::from_secs(3);
/// How many requests a second a client may make where everybody needs a token, unless it is said.
const PER_SECOND: u32 = 100;

/// How a server is to be.
pub struct Wanted {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it asks for tokens where it would not have to.
    pub require_token: bool,
    /// How many requests a second a client may make; 0: any number.
    pub rate_limit: Option<u32>,
    /// The largest request body, in bytes.
    pub max_body: usize,
}

/// What handlers need.
#[derive(Clone)]
pub struct Engine {
    /// Where everything is remembered.
    pub store: Arc<dyn Store>,
    /// What runs it.
    pub driver: Arc<Driver>,
    /// The home's folder.
    pub home: PathBuf,
    /// Where this server is reached.
    pub base: String,
    /// Requests that wait for the ends of runs.
    pub waiters: Waiters,
    /// What is counted and timed.
    pub metrics: Arc<Metrics>,
    /// What scripts say of themselves.
    pub progress: Listener,
    /// Who wants to hear what happens to runs.
    pub ears: Ears,
    /// Commands that were typed elsewhere.
    pub commands: Commands,
    /// How far scripts are kept from this machine, also those of commands that the server runs.
    pub profile: Profile,
    /// Whether everybody outside needs a token.
    pub tokens: bool,
    /// Signatures of requests that were seen.
    pub seen: Arc<Seen>,
}

/// Serves a home until it is told to end.
pub fn serve(home: &Home, wanted: &Wanted, door: Door, output: &Output) -> Result<(), CliError> {
    let _lock = socket::lock(&home.folder)?;
    let (waiters, progress, metrics, ears) = (Waiters::default(), Listener::default(), Arc::new(Metrics::default()), Ears::default());
    let mode = Mode {
        background: true,
        observer: Some(note_trouble(output.clone(), ears.before(progress.before(waiters.observer())))),
        metrics: Some(Arc::clone(&metrics)),
        spans: Some(output.clone()),
        ..Mode::default()
    };
    let driver = Arc::new(home.engine(mode)?);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("the server's threads cannot be started: {error}")))?;
    let engine = Engine {
        store: Arc::clone(&home.store),
        driver: Arc::clone(&driver),
        home: home.folder.clone(),
        base: String::new(),
        waiters,
        metrics,
        progress,
        ears,
        commands: Commands::default(),
        profile: home.profile()?,
        tokens: door == Door::Tokens,
        seen: Arc::default(),
    };
    let keeper = Keeper::begin(Arc::clone(&home.store), Arc::clone(&driver), output.clone());
    let served = runtime.block_on(listen(&home.folder, wanted, door, engine, output));
    keeper.end();
    driver.shut_down(DRAIN);
    socket::remove(&home.folder, &Place::Server);
    served
}

/// Whether everybody needs a token: all do, unless the home's owner serves it to this machine alone.
pub fn door(home: &Home, wanted: &Wanted) -> Result<Door, CliError> {
    let address = wanted.address.ip();
    let owner = std::fs::metadata(&home.folder).map_err(|error| CliError::failed(format!("{} cannot be looked at: {error}", home.folder.display())))?.uid();
    let why = if !address.is_loopback() {
        format!("{address} is not a loopback address")
    } else if owner != rustix::process::geteuid().as_raw() {
        format!("{} belongs to another user", home.folder.display())
    } else if wanted.require_token {
        "it was told to ask for access tokens".to_owned()
    } else {
        return Ok(Door::Open);
    };
    if crate::tokens::any_admin(home.store.as_ref())? {
        return Ok(Door::Tokens);
    }
    Err(CliError::usage(format!("{why}: the server would ask everybody for an access token, and there is none that permits everything"))
        .help("make one first: viat token create --name NAME --scope admin"))
}

/// Says, once, that the store fails, and hears when it does so no more.
fn note_trouble(output: Output, next: Observer) -> Observer {
    let troubled = AtomicBool::new(false);
    Arc::new(move |run, news| {
        match news {
            News::Troubled(error) if !troubled.swap(true, Ordering::Relaxed) => output.note(&format!("store: {error}; what is to be written is tried again")),
            News::Events(_) if troubled.swap(false, Ordering::Relaxed) => output.note("store: it writes again"),
            // A request with a key that is taken has been answered with the run that has it.
            News::Lost(StoreError::KeyTaken { .. }) => {}
            News::Lost(error) => output.note(&format!("run {run} is let go of: {error}")),
            _ => {}
        }
        next(run, news);
    })
}

async fn listen(home: &Path, wanted: &Wanted, door: Door, mut engine: Engine, output: &Output) -> Result<(), CliError> {
    let address = wanted.address;
    // From here on a signal is an orderly end, whatever else is still being set up.
    let ended = on_signal()?;
    let tcp = TcpListener::bind(address).await.map_err(|error| {
        CliError::failed(format!("{address} cannot be listened on: {error}")).help("if another program has the port, choose one with --port")
    })?;
    let shown = tcp.local_addr().map_err(|error| CliError::failed(error.to_string()))?;
    engine.base = format!("http://{shown}");
    let unix = bind_unix(home, &Place::Server)?;
    engine.driver.recover().map_err(CliError::driver)?;
    if door == Door::Tokens {
        output.note("everybody needs an access token");
    }
    output.note(&format!("viat serves {} on http://{shown}", home.display()));
    let rate = wanted.rate_limit.unwrap_or(if door == Door::Tokens { PER_SECOND } else { 0 });
    let waiters = engine.waiters.clone();
    let outside = behind(Bounds { door, max_body: wanted.max_body, per_second: rate }, routes::all(), engine.clone());
    let inside = behind(Bounds::of_the_socket(), routes::all(), engine);
    let over_tcp = axum::serve(tcp, outside.into_make_service_with_connect_info::<SocketAddr>()).with_graceful_shutdown(until(ended.clone()));
    let over_unix = axum::serve(unix, inside).with_graceful_shutdown(until(ended.clone()));
    let served = async { tokio::join!(over_tcp, over_unix) };
    // A client that never finishes its request does not keep the server from ending.
    let patience = async {
        until(ended).await;
        waiters.close();
        tokio::time::sleep(REQUESTS_END_WITHIN).await;
    };
    tokio::select! {
        (tcp, unix) = served => tcp.and(unix).map_err(|error| CliError::failed(format!("the server failed: {error}")))?,
        () = patience => {}
    }
    output.note("the server has been told to end; attempts that run may finish within 10 s");
    Ok(())
}

/// Becomes true at the first SIGTERM or SIGINT.
fn on_signal() -> Result<watch::Receiver<bool>, CliError> {
    let cannot = |error: std::io::Error| CliError::failed(format!("signals cannot be handled: {error}"));
    let (mut term, mut int) = (signal(SignalKind::terminate()).map_err(cannot)?, signal(SignalKind::interrupt()).map_err(cannot)?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => (),
            _ = int.recv() => (),
        }
        let _ = sender.send(true);
    });
    Ok(receiver)
}

async fn until(mut ended: watch::Receiver<bool>) {
    // A sender that is gone will never say so: that is an end too.
    let _ = ended.wait_for(|ended| *ended).await;
}

fn bind_unix(home: &Path, place: &Place) -> Result<UnixListener, CliError> {
    let cannot = |error: std::io::Error| CliError::failed(format!("the socket in {} cannot be made: {error}", home.display()));
    let (_folder, path) = socket::path(home, place).map_err(cannot)?;
    socket::remove(home, place);
    let listener = UnixListener::bind(&path).map_err(cannot)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(cannot)?;
    Ok(listener)
}

/// Routes behind a gate, which has read the body and bounds it. Every answer to what is no route is a problem document too.
fn behind(bounds: Bounds, routes: Vec<Route>, engine: Engine) -> Router {
    let gate = Gate::new(bounds, Arc::clone(&engine.store), &routes);
    let router = routes::router(routes).fallback(problem::no_such_path).method_not_allowed_fallback(problem::no_such_method);
    let router = router.layer(DefaultBodyLimit::disable()).with_state(engine);
    router.layer(axum::middleware::from_fn_with_state(Arc::new(gate), access::gate))
}
