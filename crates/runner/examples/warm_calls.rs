//! Prints what a warm call costs next to a bare Python pipe echo, and what a cold start costs.
#![allow(clippy::print_stdout)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use viat_runner::script::{Call, Context, Interpreter, Language, Outcome, Pools, RunnerConfig, ScriptCode, guardian_main};

const CALLS: usize = 20_000;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("__guardian") {
        std::process::exit(i32::from(guardian_main() != std::process::ExitCode::SUCCESS));
    }
    let home = std::env::temp_dir().join(format!("viat-warm-calls-{}", std::process::id()));
    let python = Interpreter::resolve(&home, None).expect("a python3");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    show("bare pipe echo", bare_echo(&python.path));
    show("bare pipe echo", bare_echo(&python.path));
    runtime.block_on(warm(python, &home));
    let _ = std::fs::remove_dir_all(home);
}

fn show(what: &str, mut took: Vec<Duration>) {
    took.sort();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    println!("{what}: p50 {:?}, p99 {:?}, max {:?}", at(0.5), at(0.99), at(1.0));
}

fn bare_echo(python: &Path) -> Vec<Duration> {
    let code = "import os\nwhile True:\n    data = os.read(0, 65536)\n    if not data: break\n    os.write(1, data)";
    let mut child = Command::new(python).args(["-I", "-S", "-c", code]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python");
    let mut to = child.stdin.take().expect("stdin");
    let mut from = BufReader::new(child.stdout.take().expect("stdout"));
    let mut line = String::new();
    let mut took = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let start = Instant::now();
        to.write_all(b"{\"value\":12345}\n").expect("write");
        line.clear();
        from.read_line(&mut line).expect("read");
        took.push(start.elapsed());
    }
    drop(to);
    child.wait().expect("wait");
    took
}

async fn warm(python: Interpreter, home: &Path) {
    let pools = Pools::new(RunnerConfig::new(python, home));
    let code = |name: &str| Arc::new(ScriptCode::new(name.to_string(), 1, Language::Python, "def main(value):\n    return value\n", name.to_string()));
    let mut cold = Vec::new();
    for n in 0..10 {
        let start = Instant::now();
        drop(pools.reserve(code(&format!("cold{n}"))).await.expect("a worker"));
        cold.push(start.elapsed());
    }
    show("cold start", cold);
    let code = code("echo");
    drop(pools.reserve(Arc::clone(&code)).await.expect("a worker"));
    let (notices, _said) = mpsc::unbounded_channel();
    for timeout in [None, Some(Duration::from_secs(60))] {
        let mut took = Vec::with_capacity(CALLS);
        for n in 0..CALLS {
            let call = Call {
                attempt_id: format!("0190a1b2-attempt-{n}"),
                args: r#"{"value":12345}"#.into(),
                context: Context { run_id: "0190a1b2".into(), workflow: "w".into(), step: "a".into(), ..Context::default() },
                timeout,
                secrets: None,
            };
            let (_keep, stop) = oneshot::channel();
            let start = Instant::now();
            let worker = match pools.try_reserve(&code) {
                Some(worker) => worker,
                None => pools.reserve(Arc::clone(&code)).await.expect("a worker"),
            };
            let report = worker.run(call, stop, notices.clone()).await;
            took.push(start.elapsed());
            assert!(matches!(report.outcome, Outcome::Returned(_)), "{report:?}");
        }
        show(if timeout.is_some() { "warm call with a timeout" } else { "warm call" }, took);
    }
    pools.shutdown().await;
}
