//! Timeouts, stops and deaths: whatever a script started is proven dead when its attempt is over.

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{Bench, call, config, fault, lives, read, script, until, value};
use tokio::sync::{mpsc, oneshot};
use viat_runner::script::{FaultKind, Outcome, Pools, ScriptCode, TreeId, kill_leftover};

/// Deaf, with a child, a daemon (double fork and a session of its own) and a daemon without an environment.
fn deaf(folder: &Path) -> Arc<ScriptCode> {
    let pids = folder.join("pids");
    script(&format!(
        r#"
import os, signal, subprocess, time
def daemon(run):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            run()
        os._exit(0)
    os.wait()
def main(after=None):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note = lambda pid: os.write(fd, f"{{pid}}\n".encode())
    fd = os.open({pids:?}, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    note(os.getpid())
    daemon(lambda: (note(os.getpid()), os.execv("/bin/sleep", ["sleep", "300"])))
    daemon(lambda: (note(os.getpid()), os.execve("/bin/sleep", ["sleep", "301"], {{}})))
    note(subprocess.Popen(["sleep", "302"]).pid)
    while not open({pids:?}).read().count("\n") >= 4:
        time.sleep(0.01)
    if after: eval(after)
    open({pids:?} + ".ready", "w").close()
    while after is None:
        time.sleep(1)
    return "left them"
"#
    ))
}

fn pids(folder: &Path) -> Vec<String> {
    let pids: Vec<String> = read(&folder.join("pids")).lines().map(str::to_string).collect();
    assert!(pids.len() >= 4, "{pids:?}");
    pids
}

#[track_caller]
fn all_dead(folder: &Path) {
    for pid in pids(folder) {
        assert!(!lives(&pid), "{pid} lives");
    }
}

async fn with_and_without_cgroups(test: impl AsyncFn(Bench)) {
    for use_cgroups in [true, false] {
        test(Bench::with(|config| config.use_cgroups = use_cgroups)).await;
    }
}

#[tokio::test]
async fn a_deaf_script_is_killed_with_everything_it_started() {
    with_and_without_cgroups(async |bench| {
        let code = deaf(bench.folder.path());
        let report = bench.call_within(&code, "{}", Some(Duration::from_secs(1))).await;
        let timeout = fault(&report, FaultKind::Timeout);
        assert!(timeout.message.contains("1000 ms") && timeout.code == "timeout");
        all_dead(bench.folder.path());
        assert!(report.ran >= Duration::from_millis(1500) && report.ran < Duration::from_secs(10), "{:?}", report.ran);
        assert!(report.late.is_none());
    })
    .await;
}

#[tokio::test]
async fn what_an_attempt_leaves_behind_is_dead_when_it_is_over() {
    with_and_without_cgroups(async |bench| {
        let code = deaf(bench.folder.path());
        let report = bench.call(&code, r#"{"after":"None"}"#).await;
        let _ = value(&bench.call(&script("def main(): return 1"), "{}").await);
        assert_eq!(value(&report), &json!("left them"));
        all_dead(bench.folder.path());
        until(|| bench.pools.status().iter().any(|pool| pool.script == "sample" && pool.idle == 1)).await;
    })
    .await;
}

#[tokio::test]
async fn a_worker_that_dies_takes_its_tree_with_it() {
    with_and_without_cgroups(async |bench| {
        let code = deaf(bench.folder.path());
        let report = bench.call(&code, r#"{"after":"os._exit(1)"}"#).await;
        fault(&report, FaultKind::ScriptBroken);
        all_dead(bench.folder.path());
    })
    .await;
}

#[tokio::test]
async fn a_killed_guardian_does_not_save_the_tree() {
    with_and_without_cgroups(killed_guardian).await;
}

async fn killed_guardian(bench: Bench) {
    let code = deaf(bench.folder.path());
    let report = bench.call(&code, r#"{"after":"os.kill(os.getppid(), 9) or time.sleep(60)"}"#).await;
    assert!(fault(&report, FaultKind::ScriptBroken).message.contains("guardian"));
    all_dead(bench.folder.path());
    // orphans came to this process; none may stay a zombie
    for pid in pids(bench.folder.path()) {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "{pid} is a zombie");
    }
}

#[tokio::test]
async fn a_script_that_listens_ends_in_the_grace_and_keeps_its_worker() {
    let bench = Bench::new();
    let code = script(
        "import os, time, viat\ndef main(s=30.0):\n    if viat.cancel_event.wait(s):\n        assert viat.cancelled()\n        return ['told', os.getpid()]\n    return os.getpid()\n",
    );
    let pid = value(&bench.call(&code, r#"{"s":0.0}"#).await).clone();
    let report = bench.call_within(&code, "{}", Some(Duration::from_millis(100))).await;
    fault(&report, FaultKind::Timeout);
    assert_eq!(report.late.unwrap(), format!(r#"returned after its end: ["told",{pid}]"#));
    for _ in 0..20 {
        // told before it has even read its arguments
        let stopped = bench.call_stopped(&code, "{}", Duration::from_secs(20), || true).await;
        assert_eq!(stopped.outcome, Outcome::Stopped);
        assert!(stopped.late.unwrap().contains("told"));
    }
    let next = bench.call(&code, r#"{"s":0.0}"#).await;
    assert_eq!(value(&next), &pid, "the same worker, and the signal is gone");
}

#[tokio::test]
async fn a_stop_without_an_answer_kills_after_its_grace() {
    let bench = Bench::new();
    let code = deaf(bench.folder.path());
    let ready = bench.path("pids.ready");
    let start = Instant::now();
    let report = bench.call_stopped(&code, "{}", Duration::from_millis(300), || ready.exists()).await;
    assert_eq!(report.outcome, Outcome::Stopped);
    assert!(start.elapsed() < Duration::from_secs(10));
    all_dead(bench.folder.path());
}

#[tokio::test]
async fn a_late_cancel_signal_does_not_hit_the_next_attempt() {
    let bench = Bench::new();
    let code = script("import viat\ndef main():\n    return viat.cancelled()\n");
    for _ in 0..200 {
        let worker = bench.pools.reserve(Arc::clone(&code)).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        stop.send(viat_runner::script::Stop { grace: Duration::from_secs(5) }).unwrap();
        let report = worker.run(call("{}", None), stopped, mpsc::unbounded_channel().0).await;
        assert!(matches!(report.outcome, Outcome::Stopped | Outcome::Returned(_)));
        let worker = bench.pools.reserve(Arc::clone(&code)).await.unwrap();
        let (_keep, stopped) = oneshot::channel();
        let report = worker.run(call("{}", None), stopped, mpsc::unbounded_channel().0).await;
        assert_eq!(value(&report), &json!(false));
    }
}

#[tokio::test]
async fn a_zero_timeout_starts_nothing() {
    let bench = Bench::new();
    let touched = bench.path("touched");
    let code = script(&format!("def main():\n    open({touched:?}, 'w')\n"));
    let report = bench.call_within(&code, "{}", Some(Duration::ZERO)).await;
    fault(&report, FaultKind::Timeout);
    let _ = bench.call(&script("def main(): pass"), "{}").await;
    assert!(!touched.exists());
}

#[tokio::test]
async fn a_dropped_attempt_is_killed() {
    let bench = Bench::new();
    let code = deaf(bench.folder.path());
    let worker = bench.pools.reserve(code).await.unwrap();
    let (_keep, stop) = oneshot::channel();
    let run = worker.run(call("{}", None), stop, mpsc::unbounded_channel().0);
    let ready = bench.path("pids.ready");
    tokio::select! { _ = run => panic!("it must not end"), () = until(|| ready.exists()) => {} }
    let pids = pids(bench.folder.path());
    until(|| pids.iter().all(|pid| !lives(pid))).await;
}

#[tokio::test]
async fn shutdown_kills_running_attempts_and_proves_them_dead() {
    let bench = Bench::new();
    let code = deaf(bench.folder.path());
    let worker = bench.pools.reserve(code.clone()).await.unwrap();
    let (_keep, stop) = oneshot::channel();
    let run = tokio::spawn(worker.run(call("{}", None), stop, mpsc::unbounded_channel().0));
    let ready = bench.path("pids.ready");
    until(|| ready.exists()).await;
    bench.pools.shutdown().await;
    all_dead(bench.folder.path());
    assert_eq!(run.await.unwrap().outcome, Outcome::Stopped);
    assert_eq!(bench.pools.reserve(code).await.unwrap_err().kind, FaultKind::PoolSpawnFailed);
}

#[test]
fn pools_that_are_just_dropped_leave_nothing() {
    for use_cgroups in [true, false] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let bench = Bench::with(|config| config.use_cgroups = use_cgroups);
        let code = deaf(bench.folder.path());
        let idle = runtime.block_on(bench.pools.reserve(script("def main(): pass"))).unwrap();
        let worker = runtime.block_on(bench.pools.reserve(code)).unwrap();
        let (trees, ready) = ([idle.tree(), worker.tree()], bench.path("pids.ready"));
        runtime.block_on(async { bench.pools.prewarm(&script("import time\ntime.sleep(60)\ndef main(): pass\n")) });
        let (_keep, stop) = oneshot::channel();
        let run = worker.run(call("{}", None), stop, mpsc::unbounded_channel().0);
        runtime.block_on(async {
            tokio::select! { _ = run => panic!("it must not end"), () = until(|| ready.exists()) => {} }
        });
        let Bench { pools, folder } = bench;
        drop((idle, pools, runtime));
        let waiter = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        waiter.block_on(until(|| pids(folder.path()).iter().all(|pid| !lives(pid))));
        waiter.block_on(until(|| std::fs::read_dir(folder.path().join("scratch")).unwrap().count() == 0));
        waiter.block_on(until(|| trees.iter().all(|tree| tree.cgroup.as_ref().is_none_or(|folder| !folder.exists()))));
    }
}

/// Not a test by itself: the engine that `engine_death_leaves_nothing_alive` kills.
#[tokio::test]
async fn engine_to_be_killed() {
    let Ok(folder) = std::env::var("VIAT_TEST_ENGINE") else { return };
    let folder = Path::new(&folder);
    let mut config = config(folder);
    config.use_cgroups = std::env::var("VIAT_TEST_CGROUPS").is_ok();
    let worker = Pools::new(config).reserve(deaf(folder)).await.unwrap();
    std::fs::write(folder.join("tree"), serde_json::to_string(&worker.tree()).unwrap()).unwrap();
    let (_keep, stop) = oneshot::channel();
    worker.run(call("{}", None), stop, mpsc::unbounded_channel().0).await;
}

#[tokio::test]
async fn engine_death_leaves_nothing_alive() {
    // the last column: whether the guardian is killed in the same moment
    for (cgroups, guardian_too) in [(true, false), (false, false), (true, true), (false, true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = Command::new(std::env::current_exe().unwrap());
        engine.args(["--exact", "engine_to_be_killed"]).env("VIAT_TEST_ENGINE", folder.path());
        if cgroups {
            engine.env("VIAT_TEST_CGROUPS", "1");
        }
        let mut engine = engine.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let ready = folder.path().join("pids.ready");
        until(|| ready.exists()).await;
        let tree: TreeId = serde_json::from_str(&read(&folder.path().join("tree"))).unwrap();
        if guardian_too {
            Command::new("kill").args(["-9", &engine.id().to_string(), &tree.guardian.to_string()]).status().unwrap();
        } else {
            engine.kill().unwrap();
        }
        engine.wait().unwrap();
        kill_leftover(&tree).await.unwrap();
        let pids = pids(folder.path());
        let survivors: Vec<_> = pids.iter().filter(|pid| lives(pid)).collect();
        assert!(survivors.is_empty(), "{survivors:?} live; cgroups {cgroups}, guardian too {guardian_too}");
        assert!(!kill_leftover(&tree).await.unwrap(), "nothing is left to kill");
        assert!(!tree.scratch.exists() && tree.cgroup.is_none_or(|folder| !folder.exists()));
    }
}
