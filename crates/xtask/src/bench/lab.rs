//! A fresh home with the real driver, and the workflows that are measured on it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};
use viat_dialect::{Languages, Names, Style, compile};
use viat_engine::Program;
use viat_runner::assets::{SCRIPT, ScriptAsset};
use viat_runner::clock::wall_now;
use viat_runner::driver::{Driver, NewRun, NewsSender, Rehearsal, Setup};
use viat_runner::logs::Logs;
use viat_runner::resources::Keys;
use viat_runner::script::{Interpreter, RunnerConfig, inspect};
use viat_store::{AssetName, Hash, Op, RunId, SqliteStore, Store, Unit};

use crate::shell::Done;

const SCRIPT_NAME: &str = "same";
const SOURCE: &str = "def main(n):\n    return n\n";

/// A home and its driver.
pub struct Lab {
    home: PathBuf,
    store: Arc<dyn Store>,
    driver: Driver,
    interpreter: Interpreter,
    bytes_before: u64,
}

/// A workflow to run many times.
#[derive(Clone)]
pub struct Workflow {
    program: Arc<Program>,
    revision: u64,
    /// How many entries it has.
    pub entries: usize,
}

impl Lab {
    /// Makes the home, saves the script, starts the driver.
    pub fn open(home: &Path) -> Done<Lab> {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(home)?);
        let interpreter = Interpreter::resolve(&home.join("cache"), std::env::var_os("VIAT_PYTHON").map(PathBuf::from).as_deref())?;
        let info = inspect(&interpreter, SOURCE).map_err(|problem| problem.message)?;
        let asset = ScriptAsset { language: "python".to_owned(), source: SOURCE.to_owned(), code: None, info, metadata: Default::default(), environment: None };
        let name = AssetName::new(SCRIPT, SCRIPT_NAME);
        let op = Op::PutAsset { name, body: serde_json::to_vec(&asset)?, hash: Hash::of(SOURCE.as_bytes()), refs: Vec::new(), at: wall_now() };
        store.commit_blocking(Unit::from(op))?;
        let setup = Setup {
            store: Arc::clone(&store),
            lease: store.lease()?,
            scripts: RunnerConfig::new(interpreter.clone(), home.join("scratch")),
            keys: Keys::at(home),
            languages: Arc::new(Languages::default()),
            logs: Logs::at(home.join("logs")),
            fast_forward: false,
            rehearsal: Rehearsal::default(),
            background: false,
            hands_off: false,
            active_budget_ms: 3_600_000,
            observer: None,
            witness: None,
        };
        let driver = Driver::start(setup)?;
        let bytes_before = size(home)?;
        Ok(Lab { home: home.to_path_buf(), store, driver, interpreter, bytes_before })
    }

    /// The Python that the workers run.
    pub fn python(&self) -> &Path {
        &self.interpreter.path
    }

    /// Script entries in a row, each given the output of the one before it.
    pub fn scripts(&self, count: usize) -> Done<Workflow> {
        let mut text = String::from("inputs: {}\nsteps:\n");
        for number in 0..count {
            let given = if number == 0 { "1".to_owned() } else { format!("$s{}.output", number - 1) };
            writeln!(text, "  - id: s{number}\n    script: {SCRIPT_NAME}\n    args: {{n: {given}}}")?;
        }
        self.compiled(&text, count)
    }

    /// `set` entries in a row, each of an object that holds a reference.
    pub fn sets(&self, count: usize) -> Done<Workflow> {
        let mut text = String::from("inputs: {}\nsteps:\n");
        for number in 0..count {
            let given = if number == 0 { "1".to_owned() } else { format!("$s{}.output.n", number - 1) };
            writeln!(text, "  - id: s{number}\n    set: {{n: {given}}}")?;
        }
        self.compiled(&text, count)
    }

    fn compiled(&self, text: &str, entries: usize) -> Done<Workflow> {
        let names = Names { scripts: vec![SCRIPT_NAME.to_owned()], workflows: Vec::new() };
        let compiled = compile("bench.yaml", text.as_bytes(), &names);
        let drawn = compiled.rendered(Style::Plain);
        let definition = compiled.definition.ok_or(drawn)?;
        let program = Program { main: Arc::new(definition), called: std::collections::BTreeMap::new() };
        Ok(Workflow { program: Arc::new(program), revision: self.store.revision()?, entries })
    }

    /// Starts a run; it is durable when this returns.
    pub fn start(&self, workflow: &Workflow, news: NewsSender) -> Done {
        let new = NewRun {
            id: RunId::fresh(),
            workflow: "bench".to_owned(),
            version: 1,
            revision: workflow.revision,
            program: Arc::clone(&workflow.program),
            inputs: Map::<String, Value>::new(),
            timeout_ms: None,
            draft: false,
            key: None,
        };
        Ok(self.driver.start_run(new, Some(news))?)
    }

    /// Shuts the driver and the store down; says by how many bytes the home has grown.
    pub fn close(self) -> Done<u64> {
        drop(self.driver);
        self.store.close();
        drop(self.store);
        Ok(size(&self.home)?.saturating_sub(self.bytes_before))
    }
}

fn size(folder: &Path) -> std::io::Result<u64> {
    let mut total = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // The driver's workers come and go meanwhile.
        let Ok(meta) = entry.metadata() else { continue };
        total += if meta.is_dir() { size(&entry.path()).unwrap_or(0) } else { meta.len() };
    }
    Ok(total)
}
