//! The desk of a command that runs something in the foreground: a socket over which other commands reach its runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::{oneshot, watch};
use viat_runner::driver::Driver;

use super::access::Bounds;
use super::commands::Commands;
use super::events::Ears;
use super::progress::Listener;
use super::waiters::Waiters;
use super::{Engine, behind, bind_unix, routes, until};
use crate::cli::error::CliError;
use crate::socket::{self, Place};
use crate::wiring::Home;

/// It is open for as long as this is held.
pub struct Desk {
    home: PathBuf,
    place: Place,
    close: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Desk {
    /// Opens a desk for the runs of an engine.
    ///
    /// # Errors
    /// The socket, or the thread that listens on it, cannot be made.
    pub fn open(home: &Home, driver: &Arc<Driver>) -> Result<Desk, CliError> {
        let place = Place::Owner(driver.owner().clone());
        let cannot = |error: std::io::Error| CliError::failed(format!("other commands cannot be listened to: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
        let listener = {
            let _context = runtime.enter();
            bind_unix(&home.folder, &place)?
        };
        let engine = Engine {
            store: Arc::clone(&home.store),
            profile: home.profile()?,
            driver: Arc::clone(driver),
            home: home.folder.clone(),
            base: String::new(),
            waiters: Waiters::default(),
            metrics: Arc::default(),
            progress: Listener::default(),
            ears: Ears::default(),
            commands: Commands::default(),
            tokens: false,
            seen: Arc::default(),
        };
        let (close, closed) = oneshot::channel();
        let thread = std::thread::Builder::new().name("viat-desk".to_owned()).spawn(move || runtime.block_on(attend(listener, engine, closed)));
        Ok(Desk { home: home.folder.clone(), place, close: Some(close), thread: Some(thread.map_err(cannot)?) })
    }
}

/// How long an open request may take once the command is through.
const REQUESTS_END_WITHIN: Duration = Duration::from_secs(1);

async fn attend(listener: UnixListener, engine: Engine, closed: oneshot::Receiver<()>) {
    let (begin, ends) = watch::channel(false);
    // A desk that fails leaves its runs as they are.
    let served = axum::serve(listener, behind(Bounds::of_the_socket(), routes::of_runs(), engine)).with_graceful_shutdown(until(ends)).into_future();
    let patience = async {
        let _ = closed.await;
        let _ = begin.send(true);
        tokio::time::sleep(REQUESTS_END_WITHIN).await;
    };
    tokio::select! {
        _ = served => (),
        () = patience => (),
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        socket::remove(&self.home, &self.place);
        drop(self.close.take());
        // A thread that panicked has nothing left to wait for.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
