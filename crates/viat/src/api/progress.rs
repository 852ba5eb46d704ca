//! `/api/v1/runs/ID/progress`: what the scripts of a run say of themselves, as long as the run runs; it is no fact and not kept.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use viat_runner::driver::{News, Observer};
use viat_store::RunId;

use super::Engine;
use super::problem::Problem;
use super::runs::blocking;
use super::take::Place;
use crate::cli::find_run;

/// Entries of one run that are remembered; of more, those that spoke last.
const MOST: usize = 200;

/// What an entry's script said last.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Said {
    /// The entry.
    pub path: String,
    /// From 0 to 1.
    pub fraction: Option<f64>,
    /// What is being done.
    pub note: Option<String>,
    /// Grows with everything that is said in this server: who asks again sees what is new.
    pub number: u64,
}

#[derive(Default)]
struct Heard {
    runs: BTreeMap<RunId, Vec<Said>>,
    last: u64,
}

/// What scripts said, by run.
#[derive(Clone, Default)]
pub struct Listener(Arc<Mutex<Heard>>);

impl Listener {
    /// Hears the news, and passes them on.
    pub fn before(&self, next: Observer) -> Observer {
        let listener = self.clone();
        Arc::new(move |run, news| {
            match news {
                News::Progress { path, fraction, note } => listener.hear(run, path, *fraction, note.as_deref()),
                News::Ended | News::Lost(_) => listener.forget(run),
                News::Events(_) | News::Troubled(_) => {}
            }
            next(run, news);
        })
    }

    /// What the scripts of a run said last, the oldest first.
    pub fn of(&self, run: &RunId) -> Vec<Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).runs.get(run).cloned().unwrap_or_default()
    }

    fn hear(&self, run: &RunId, path: &str, fraction: Option<f64>, note: Option<&str>) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.last += 1;
        let said = Said { path: path.to_owned(), fraction, note: note.map(str::to_owned), number: heard.last };
        let all = heard.runs.entry(run.clone()).or_default();
        all.retain(|other| other.path != path);
        if all.len() >= MOST {
            all.remove(0);
        }
        all.push(said);
    }

    fn forget(&self, run: &RunId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).runs.remove(run);
    }
}

/// What the scripts of a run said last.
pub async fn show(State(engine): State<Engine>, Place(run): Place<String>) -> Result<Response, Problem> {
    let listener = engine.progress.clone();
    let said = blocking(move || Ok(listener.of(&find_run(engine.store.as_ref(), &run)?))).await?;
    Ok(Json(said).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_of_each_entry_is_kept_until_the_run_ends() {
        let listener = Listener::default();
        let observer = listener.before(Arc::new(|_, _| {}));
        let run = RunId::from("r");
        let say = |path: &str, fraction| observer(&run, &News::Progress { path: path.to_owned(), fraction: Some(fraction), note: None });
        say("a", 0.1);
        say("b", 0.2);
        say("a", 0.3);
        let said = listener.of(&run);
        assert_eq!(said.iter().map(|said| (said.path.as_str(), said.fraction, said.number)).collect::<Vec<_>>(), [("b", Some(0.2), 2), ("a", Some(0.3), 3)]);
        for n in 0..2 * MOST {
            say(&format!("e[{n}]"), 0.5);
        }
        assert_eq!((listener.of(&run).len(), listener.of(&run)[0].path.as_str()), (MOST, "e[200]"));
        observer(&run, &News::Ended);
        assert_eq!(listener.of(&run), []);
    }
}
