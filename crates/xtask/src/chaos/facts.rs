//! What viat says of its runs when all is over: records, ledgers and transitions by its commands, journals from its database.

use std::collections::BTreeMap;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use super::lab::Lab;
use crate::shell::Done;

/// A batch of a journal, as it lies in the database.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Its number in the run.
    pub number: u64,
    /// How many events the row says it has.
    pub count: usize,
    /// When it was decided, in milliseconds since 1970.
    pub at: i64,
    /// Its events.
    pub events: Vec<Value>,
}

/// All of one run.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// `viat run show --json`.
    pub record: Value,
    /// `viat run ledger --json`.
    pub ledger: Vec<Value>,
    /// `viat run transitions --json`.
    pub transitions: Vec<Value>,
    /// The journal.
    pub journal: Vec<Batch>,
}

impl Facts {
    /// The events, in order.
    pub fn events(&self) -> impl Iterator<Item = &Value> {
        self.journal.iter().flat_map(|batch| &batch.events)
    }

    /// The events of one type.
    pub fn of_type(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.events().filter(move |event| event["type"] == kind)
    }
}

/// Asks for everything about all runs, by their ids.
///
/// # Errors
/// A command failed, or the database cannot be read.
pub fn collect(lab: &Lab) -> Done<BTreeMap<String, Facts>> {
    let mut journals = journals(lab)?;
    let mut found = BTreeMap::new();
    for (run, journal) in std::mem::take(&mut journals) {
        let rows = |value: Value| value.as_array().cloned().unwrap_or_default();
        let facts = Facts {
            record: lab.json(&["run", "show", &run, "--json"])?,
            ledger: rows(lab.json(&["run", "ledger", &run, "--json"])?),
            transitions: rows(lab.json(&["run", "transitions", &run, "--json"])?),
            journal,
        };
        found.insert(run, facts);
    }
    Ok(found)
}

fn journals(lab: &Lab) -> Done<BTreeMap<String, Vec<Batch>>> {
    let database = Connection::open_with_flags(lab.home.join("viat.db"), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut query = database.prepare(
        "SELECT runs.id, journal.number, journal.events, journal.body FROM runs LEFT JOIN journal ON journal.run = runs.key ORDER BY journal.position",
    )?;
    let mut rows = query.query([])?;
    let mut found: BTreeMap<String, Vec<Batch>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let batches = found.entry(row.get(0)?).or_default();
        let Some(number) = row.get::<_, Option<i64>>(1)? else { continue };
        let body: Value = serde_json::from_slice(&row.get::<_, Vec<u8>>(3)?)?;
        let events = body["events"].as_array().cloned().unwrap_or_default();
        let count = usize::try_from(row.get::<_, i64>(2)?)?;
        batches.push(Batch { number: u64::try_from(number)?, count, at: body["at"].as_i64().unwrap_or_default(), events });
    }
    Ok(found)
}
