//! Waiting for a run that this command drives: its news, and the signals that end the waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use viat_engine::journal::Event;
use viat_runner::driver::{News, NewsSender};
use viat_store::StoreError;

use super::error::CliError;
use super::progress::Progress;

/// What a waiting command hears.
enum Heard {
    News(News),
    Signal,
}

/// How the waiting ended.
pub enum Ending {
    /// The run is terminal.
    Ended,
    /// Only a person can say how it goes on.
    Stuck,
    /// The run is no longer this engine's.
    Lost(StoreError),
    /// Somebody pressed ^C or sent SIGTERM.
    Interrupted,
}

/// A channel of news and signals.
pub struct Watch {
    sender: mpsc::Sender<Heard>,
    receiver: mpsc::Receiver<Heard>,
    signals: Handle,
    /// Whether the next signal ends the process at once.
    impatient: Arc<AtomicBool>,
}

impl Watch {
    /// Begins to listen for signals.
    pub fn begin() -> Result<Watch, CliError> {
        let (sender, receiver) = mpsc::channel();
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| CliError::usage(format!("signals cannot be handled: {error}")))?;
        let handle = signals.handle();
        let heard = sender.clone();
        let impatient = Arc::new(AtomicBool::new(false));
        let now = Arc::clone(&impatient);
        std::thread::spawn(move || {
            for _ in signals.forever() {
                if now.load(Ordering::Relaxed) {
                    // The guardians end what runs when they see that this process is gone.
                    std::process::exit(1);
                }
                let _ = heard.send(Heard::Signal);
            }
        });
        Ok(Watch { sender, receiver, signals: handle, impatient })
    }

    /// From now on a signal ends the process at once.
    pub fn end_at_next_signal(&self) {
        self.impatient.store(true, Ordering::Relaxed);
    }

    /// Where the driver is to send the run's news.
    pub fn sender(&self) -> NewsSender {
        let sender = self.sender.clone();
        Box::new(move |news| {
            let _ = sender.send(Heard::News(news));
        })
    }

    /// Shows progress until the run ends, is `stuck`, is lost, or the command is interrupted.
    ///
    /// Whether it is stuck is asked from the first sign of it on.
    pub fn wait(&self, progress: &mut Progress, stuck: impl Fn() -> bool) -> Ending {
        let mut signs = false;
        loop {
            match self.receiver.recv() {
                Ok(Heard::News(News::Events(batch))) => {
                    progress.events(&batch);
                    signs |= batch.events.iter().any(|event| matches!(event, Event::AttentionNeeded { .. } | Event::Adopted { .. }));
                    if signs && stuck() {
                        return Ending::Stuck;
                    }
                }
                Ok(Heard::News(News::Progress { path, fraction, note })) => progress.said(&path, fraction, note.as_deref()),
                Ok(Heard::News(News::Troubled(error))) => progress.troubled(&error),
                Ok(Heard::News(News::Ended)) => return Ending::Ended,
                Ok(Heard::News(News::Lost(error))) => return Ending::Lost(error),
                Ok(Heard::Signal) | Err(_) => return Ending::Interrupted,
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.signals.close();
    }
}
