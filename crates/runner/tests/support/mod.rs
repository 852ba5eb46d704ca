//! What the script tests share: pools on a throw-away folder, and one attempt made from start to end.
#![allow(dead_code, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use viat_runner::script::{
    Call, Context, Fault, FaultKind, Interpreter, Language, NodeFinder, Notice, Outcome, PoolConfig, Pools, Report, RunnerConfig, ScriptCode, Stop,
};

pub struct Bench {
    pub folder: tempfile::TempDir,
    pub pools: Pools,
}

pub fn python() -> Interpreter {
    Interpreter::resolve(&std::env::temp_dir().join("viat-runner-tests"), None).unwrap()
}

pub fn config(folder: &Path) -> RunnerConfig {
    let mut config = RunnerConfig::new(python(), folder.join("scratch"));
    config.node = NodeFinder::new(std::env::temp_dir().join("viat-runner-tests"), None);
    config.guardian = vec![env!("CARGO_BIN_EXE_viat-guardian").into(), "__guardian".into()];
    config
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut RunnerConfig)) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        change(&mut config);
        Bench { pools: Pools::new(config), folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// One attempt with everything default.
    pub async fn call(&self, code: &Arc<ScriptCode>, args: &str) -> Report {
        self.call_within(code, args, None).await
    }

    pub async fn call_within(&self, code: &Arc<ScriptCode>, args: &str, timeout: Option<Duration>) -> Report {
        let worker = self.pools.reserve(Arc::clone(code)).await.unwrap();
        let (_keep, stop) = oneshot::channel();
        worker.run(call(args, timeout), stop, mpsc::unbounded_channel().0).await
    }

    /// One attempt that is stopped when `when` says so.
    pub async fn call_stopped(&self, code: &Arc<ScriptCode>, args: &str, grace: Duration, when: impl Fn() -> bool) -> Report {
        let worker = self.pools.reserve(Arc::clone(code)).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let run = worker.run(call(args, None), stopped, mpsc::unbounded_channel().0);
        let stopper = async {
            until(when).await;
            stop.send(Stop { grace }).unwrap();
        };
        tokio::join!(run, stopper).0
    }

    /// One attempt whose notices are answered by `answer`.
    pub async fn call_heard(&self, code: &Arc<ScriptCode>, args: &str, answer: impl Fn(&str, &Value) -> Result<Value, String>) -> (Report, Vec<String>) {
        let worker = self.pools.reserve(Arc::clone(code)).await.unwrap();
        let (_keep, stop) = oneshot::channel();
        let (notices, mut said) = mpsc::unbounded_channel();
        let listener = async {
            let mut heard = Vec::new();
            while let Some(notice) = said.recv().await {
                match notice {
                    Notice::Defer { workflow, args, ack } => {
                        heard.push(format!("defer {workflow} {args}"));
                        let _ = ack.send(answer(&workflow, &args));
                    }
                    Notice::Resource { name, kind, ack } => {
                        heard.push(format!("resource {name} {kind:?}"));
                        let _ = ack.send(answer(&name, &Value::Null));
                    }
                    Notice::Progress { fraction, note } => heard.push(format!("progress {fraction:?} {note:?}")),
                }
            }
            heard
        };
        tokio::join!(worker.run(call(args, None), stop, notices), listener)
    }
}

pub fn call(args: &str, timeout: Option<Duration>) -> Call {
    let context = Context {
        run_id: "run-1".into(),
        workflow: "w".into(),
        version: Some(3),
        step: "a".into(),
        path: "a[0]".into(),
        attempt: 2,
        idempotency_key: "key".into(),
        deadline: None,
        traceparent: None,
    };
    static ATTEMPTS: AtomicUsize = AtomicUsize::new(1);
    let attempt_id = format!("attempt-{}", ATTEMPTS.fetch_add(1, Ordering::Relaxed));
    Call { attempt_id, args: args.into(), context, timeout, secrets: None }
}

pub fn script(source: &str) -> Arc<ScriptCode> {
    script_in(Language::Python, source)
}

pub fn script_in(language: Language, source: &str) -> Arc<ScriptCode> {
    Arc::new(ScriptCode::new("sample", 1, language, source, source))
}

pub fn pool(max: usize, queue: usize, queue_wait_ms: u64) -> PoolConfig {
    PoolConfig { max, queue, queue_wait: Duration::from_millis(queue_wait_ms), ..PoolConfig::default() }
}

pub fn value(report: &Report) -> &Value {
    match &report.outcome {
        Outcome::Returned(value) => value,
        other => panic!("{other:?}\n{}", report.log.text()),
    }
}

#[track_caller]
pub fn fault(report: &Report, kind: FaultKind) -> &Fault {
    match &report.outcome {
        Outcome::Failed(fault) if fault.kind == kind => fault,
        other => panic!("{other:?} is not {kind:?}\n{}", report.log.text()),
    }
}

/// Waits for something of the outside world, 20 s at most.
pub async fn until(probe: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !probe() {
        assert!(Instant::now() < end, "it did not happen within 20 s");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|text| {
        let state = text.rsplit(") ").next().unwrap_or("").chars().next();
        !matches!(state, Some('Z' | 'X'))
    })
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
