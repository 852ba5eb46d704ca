//! Taking over the run of an engine that died: what it left running is proven dead before anything else is decided.

use std::sync::Arc;

use viat_engine::journal::Batch;
use viat_engine::{Input, Run, outstanding};
use viat_store::{OwnerId, RunId, Store};

use super::handle::NewsSender;
use super::hot::{Hot, Pending};
use super::{DriverError, Loop, Message, Reply};
use crate::assets::{self, AssetError};
use crate::script::{TreeId, kill_leftover};

/// A run whose owner is dead.
pub(crate) struct Found {
    id: RunId,
    run: Run,
    batches: u64,
    owner: Option<OwnerId>,
}

impl Loop {
    pub(super) fn adopt(&mut self, id: RunId, news: Option<NewsSender>, reply: Reply<()>) {
        let found = match find(self.store.as_ref(), &id) {
            Ok(found) => found,
            Err(error) => return reply.send(Err(error)),
        };
        let sender = self.sender.clone();
        tokio::spawn(async move {
            match kill_what_is_left(&found.run).await {
                Ok(()) => {
                    let _ = sender.send(Message::Adoptable { found: Box::new(found), news, reply });
                }
                Err(error) => reply.send(Err(error)),
            }
        });
    }

    pub(super) fn take_over(&mut self, found: Found, news: Option<NewsSender>, reply: Reply<()>) {
        let mut hot = Hot::new(found.id.clone(), found.run, news);
        hot.batches = found.batches;
        hot.claim_from = Some(found.owner);
        hot.replies.push(reply);
        hot.backlog.push_back(Pending::Input(Input::Adopted { owner: self.owner().to_string() }));
        self.catch_up(&mut hot);
        self.keep(hot);
    }
}

fn find(store: &dyn Store, id: &RunId) -> Result<Found, DriverError> {
    let row = store.run(id)?.ok_or_else(|| DriverError::Assets(AssetError::Missing(format!("run {id}"))))?;
    if row.summary.ended_at.is_some() {
        return Err(DriverError::Ended);
    }
    if let Some(owner) = &row.owner
        && store.is_alive(owner)?
    {
        return Err(DriverError::Owned(owner.clone()));
    }
    let journal = store.journal(id, 0)?;
    let program = assets::program(store, &row.workflow, row.version, row.revision).map_err(DriverError::Assets)?;
    let batches: Vec<Batch> = journal.iter().map(|batch| batch.decode()).collect::<Result<_, _>>().map_err(|error| unreadable(id, &error.to_string()))?;
    let run = Run::load(Arc::new(program), &batches).map_err(|problem| unreadable(id, &problem))?;
    Ok(Found { id: id.clone(), run, batches: batches.len() as u64, owner: row.owner })
}

async fn kill_what_is_left(run: &Run) -> Result<(), DriverError> {
    for running in outstanding(run).running {
        let Ok(tree) = serde_json::from_value::<TreeId>(running.tree) else { continue };
        kill_leftover(&tree).await.map_err(|error| DriverError::Io(format!("what {} left running could not be ended: {error}", running.path)))?;
    }
    Ok(())
}

fn unreadable(id: &RunId, problem: &str) -> DriverError {
    DriverError::Assets(AssetError::Unreadable(format!("the journal of run {id} cannot be read: {problem}")))
}
