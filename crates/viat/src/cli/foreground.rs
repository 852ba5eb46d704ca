//! An engine of this command, whose runs it waits for; other commands can tell them what they could tell a server.

use std::sync::Arc;

use viat_runner::driver::{Driver, NewsSender};

use super::error::CliError;
use super::watch::Watch;
use crate::api::desk::Desk;
use crate::wiring::{Home, Mode};

/// The engine, what it tells, and the desk where it listens.
pub struct Foreground {
    // The first to go: nobody is listened to any more when the engine ends.
    _desk: Desk,
    /// The engine.
    pub driver: Arc<Driver>,
    /// Its news, and the signals that end the waiting.
    pub watch: Watch,
}

impl Foreground {
    /// Starts an engine.
    pub fn begin(home: &Home, mode: Mode) -> Result<Foreground, CliError> {
        let watch = Watch::begin()?;
        let driver = Arc::new(home.engine(mode)?);
        let desk = Desk::open(home, &driver)?;
        Ok(Foreground { _desk: desk, driver, watch })
    }

    /// Where the engine is to send a run's news.
    pub fn sender(&self) -> NewsSender {
        self.watch.sender()
    }
}
