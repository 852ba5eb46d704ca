//! The server: one router, served on a TCP port for programs and on a socket in the home for the command line.

pub mod desk;
mod endpoints;
mod guard;
mod links;
mod metrics;
mod page;
mod pools;
mod problem;
mod progress;
mod recover;
mod reviews;
mod runs;
mod waiters;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::{get, post};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use viat_runner::driver::{Driver, News, Observer};
use viat_store::Store;

use crate::cli::error::CliError;
use crate::cli::output::Output;
use crate::observe::Metrics;
use crate::schedules::keeper::Keeper;
use crate::socket::{self, Place};
use crate::wiring::{Home, Mode};
use progress::Listener;
use waiters::Waiters;

/// How long attempts may finish when the server is told to end.
const DRAIN: Duration = Duration::from_secs(10);
/// How long open requests may take once the server is told to end.
const REQUESTS_END_WITHIN: Duration = Duration::from_secs(3);
/// The largest request body, in bytes.
const MAX_BODY: usize = 64 << 20;

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
}

/// Serves a home until it is told to end.
pub fn serve(home: &Home, address: SocketAddr, output: &Output) -> Result<(), CliError> {
    if !address.ip().is_loopback() {
        return Err(CliError::usage(format!("{} is not a loopback address", address.ip()))
            .help("anything else needs access tokens, which this version does not have yet: use 127.0.0.1 and a proxy that authenticates"));
    }
    let _lock = socket::lock(&home.folder)?;
    let (waiters, progress, metrics) = (Waiters::default(), Listener::default(), Arc::new(Metrics::default()));
    let mode = Mode {
        background: true,
        observer: Some(note_trouble(output.clone(), progress.before(waiters.observer()))),
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
    let engine =
        Engine { store: Arc::clone(&home.store), driver: Arc::clone(&driver), home: home.folder.clone(), base: String::new(), waiters, metrics, progress };
    let keeper = Keeper::begin(Arc::clone(&home.store), Arc::clone(&driver), output.clone());
    let served = runtime.block_on(listen(&home.folder, address, engine, output));
    keeper.end();
    driver.shut_down(DRAIN);
    socket::remove(&home.folder, &Place::Server);
    served
}

/// Says, once, that the store fails, and hears when it does so no more.
fn note_trouble(output: Output, next: Observer) -> Observer {
    let troubled = AtomicBool::new(false);
    Arc::new(move |run, news| {
        match news {
            News::Troubled(error) if !troubled.swap(true, Ordering::Relaxed) => output.note(&format!("store: {error}; what is to be written is tried again")),
            News::Events(_) if troubled.swap(false, Ordering::Relaxed) => output.note("store: it writes again"),
            News::Lost(error) => output.note(&format!("run {run} is let go of: {error}")),
            _ => {}
        }
        next(run, news);
    })
}

async fn listen(home: &Path, address: SocketAddr, mut engine: Engine, output: &Output) -> Result<(), CliError> {
    // From here on a signal is an orderly end, whatever else is still being set up.
    let ended = on_signal()?;
    let tcp = TcpListener::bind(address).await.map_err(|error| {
        CliError::failed(format!("{address} cannot be listened on: {error}")).help("if another program has the port, choose one with --port")
    })?;
    let shown = tcp.local_addr().map_err(|error| CliError::failed(error.to_string()))?;
    engine.base = format!("http://{shown}");
    let unix = bind_unix(home, &Place::Server)?;
    engine.driver.recover().map_err(CliError::driver)?;
    output.note(&format!("viat serves {} on http://{shown}", home.display()));
    let over_tcp = axum::serve(tcp, router(engine.clone()).layer(axum::middleware::from_fn(guard::same_origin))).with_graceful_shutdown(until(ended.clone()));
    let waiters = engine.waiters.clone();
    let over_unix = axum::serve(unix, router(engine)).with_graceful_shutdown(until(ended.clone()));
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

fn router(engine: Engine) -> Router {
    let routes = of_runs()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics::show))
        .route("/api/v1/runs", post(runs::start))
        .route("/api/v1/pools", get(pools::show))
        .route("/api/v1/reviews/{id}/links", post(reviews::link))
        .route("/links/review/{token}", get(links::show).post(links::decide).layer(DefaultBodyLimit::max(links::MAX_FORM)))
        .route("/e/{*route}", post(endpoints::call));
    finished(routes, engine)
}

/// What concerns runs and reviews that are there already.
fn of_runs() -> Router<Engine> {
    Router::new()
        .route("/api/v1/runs/{run}", get(runs::show))
        .route("/api/v1/runs/{run}/cancel", post(runs::cancel))
        .route("/api/v1/runs/{run}/events", post(runs::event))
        .route("/api/v1/runs/{run}/settle", post(recover::settle))
        .route("/api/v1/runs/{run}/compensate", post(recover::compensate))
        .route("/api/v1/runs/{run}/resume", post(recover::resume))
        .route("/api/v1/runs/{run}/migrate", post(recover::migrate))
        .route("/api/v1/runs/{run}/progress", get(progress::show))
        .route("/api/v1/runs/{run}/transitions", get(recover::show_transitions))
        .route("/api/v1/runs/{run}/ledger", get(recover::show_ledger))
        .route("/api/v1/reviews", get(reviews::list))
        .route("/api/v1/reviews/{id}", get(reviews::show))
        .route("/api/v1/reviews/{id}/decision", post(reviews::decide))
        .route("/api/v1/reviews/{id}/extension", post(reviews::extend))
}

/// Every answer to what is no route is a problem document too.
fn finished(routes: Router<Engine>, engine: Engine) -> Router {
    routes.fallback(problem::no_such_path).method_not_allowed_fallback(problem::no_such_method).layer(DefaultBodyLimit::max(MAX_BODY)).with_state(engine)
}

async fn ready(axum::extract::State(engine): axum::extract::State<Engine>) -> (StatusCode, &'static str) {
    match tokio::task::spawn_blocking(move || engine.store.revision()).await {
        Ok(Ok(_)) => (StatusCode::OK, "ready\n"),
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n"),
    }
}
