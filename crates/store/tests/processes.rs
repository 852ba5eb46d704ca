//! Several processes on one home, and processes that die: this binary starts itself again as the child.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use viat_store::{EncodedBatch, Op, OwnerId, RunId, RunRow, SqliteStore, Store, StoreError, Summary};

const ROLE: &str = "VIAT_STORE_TEST_ROLE";
const HOME: &str = "VIAT_STORE_TEST_HOME";

fn child(role: &str, home: &Path) -> Child {
    let this = std::env::current_exe().expect("a path");
    let mut command = Command::new(this);
    command.args(["--exact", "child_process", "--nocapture", "--test-threads=1"]).env(ROLE, role).env(HOME, home);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts")
}

/// Lines that the child itself wrote, without the test harness's own.
fn said(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
    lines.filter_map(|line| line.split_once("> ").map(|(_, said)| said.to_owned()))
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {text}").expect("somebody listens");
    out.flush().expect("somebody listens");
}

/// Not a test by itself: what the child processes do.
#[test]
fn child_process() {
    let (Ok(role), Ok(home)) = (std::env::var(ROLE), std::env::var(HOME)) else { return };
    match role.as_str() {
        "append" => append_for_ever(&home),
        "hold" => hold(&home),
        "open" => open_at_once(&home),
        "count" => count(&home),
        other => panic!("no such role: {other}"),
    }
}

fn create(id: &str, owner: &OwnerId) -> Op {
    let row = RunRow {
        id: RunId::from(id),
        workflow: "w".to_owned(),
        version: 1,
        revision: 1,
        owner: Some(owner.clone()),
        created_at: 0,
        summary: Summary { status: "running".to_owned(), ..Summary::default() },
    };
    Op::CreateRun { row, first: EncodedBatch { body: b"0".to_vec(), events: 1 } }
}

fn append(id: &str, number: u64, owner: &OwnerId) -> Op {
    // Some bodies are larger than a page, so that half of one could be there.
    let body = format!("{number}:{}", "x".repeat((number as usize * 97) % 9_000)).into_bytes();
    Op::Append { run: RunId::from(id), expected: number, batch: EncodedBatch { body, events: 1 }, summary: None, fence: owner.clone() }
}

/// Four runs, each appended to in a loop; every acknowledgement is told.
fn append_for_ever(home: &str) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(home).expect("opens"));
    let lease = store.lease().expect("a lease");
    let (sender, receiver) = channel();
    let mut next = [1u64; 4];
    let commit = |run: usize, number: u64| {
        let sender = sender.clone();
        let mut ops = vec![append(&format!("r{run}"), number, lease.owner())];
        ops.push(Op::ClaimKey { space: "step".to_owned(), key: format!("{run}:{number}"), value: Vec::new() });
        store.commit(ops.into(), Box::new(move |answer| _ = sender.send((run, number, answer))));
    };
    for run in 0..next.len() {
        store.commit_blocking(create(&format!("r{run}"), lease.owner()).into()).expect("created");
        commit(run, 1);
    }
    for (run, number, answer) in &receiver {
        answer.expect("appended");
        say(&format!("{run} {number}"));
        next[run] = number + 1;
        commit(run, next[run]);
    }
}

/// Owns a run until it is told to go, or dies.
fn hold(home: &str) {
    let store = SqliteStore::open(home).expect("opens");
    let lease = store.lease().expect("a lease");
    store.commit_blocking(create("held", lease.owner()).into()).expect("created");
    say(lease.owner().as_str());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// Waits for the starting shot, so that all open a fresh home at the same moment.
fn open_at_once(home: &str) {
    say("ready");
    let _ = std::io::stdin().read(&mut [0]);
    let store = SqliteStore::open(home).expect("opens");
    let owner = OwnerId::from("o");
    for number in 0..5 {
        let id = format!("{}-{number}", std::process::id());
        store.commit_blocking(create(&id, &owner).into()).expect("created");
    }
    say("done");
}

/// Appends to one run that all processes share, 100 times, whatever the others do.
fn count(home: &str) {
    let store = SqliteStore::open(home).expect("opens");
    let owner = OwnerId::from("shared");
    let mut number = 1;
    for _ in 0..100 {
        loop {
            match store.commit_blocking(append("shared", number, &owner).into()) {
                Ok(_) => break,
                Err(StoreError::Conflict { actual, .. }) => number = actual,
                Err(other) => panic!("{other}"),
            }
        }
        number += 1;
    }
    say("done");
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    for round in 0..12u64 {
        let home = tempfile::tempdir().expect("a directory");
        let mut child = child("append", home.path());
        let mut lines = said(&mut child);
        let mut acknowledged = [0u64; 4];
        let mut note = |line: String| {
            let (run, number) = line.split_once(' ').expect("two numbers");
            acknowledged[run.parse::<usize>().expect("a number")] = number.parse().expect("a number");
        };
        // Some rounds die at once, some after a checkpoint or two; the clock's last digits choose the moment.
        let first = lines.next().expect("begins");
        note(first);
        let until = Instant::now() + Duration::from_millis(round * 40 + u64::from(std::process::id()) % 17);
        while Instant::now() < until {
            note(lines.next().expect("goes on"));
        }
        child.kill().expect("killed");
        child.wait().expect("reaped");
        // What it had said before it died and we had not read yet counts too.
        lines.for_each(note);
        check_after_death(home.path(), acknowledged);
    }
}

fn check_after_death(home: &Path, acknowledged: [u64; 4]) {
    let store = SqliteStore::open(home).expect("opens again");
    let orphans = store.orphans(9).expect("readable");
    assert_eq!(orphans.len(), 4);
    for (run, last) in acknowledged.into_iter().enumerate() {
        let id = RunId::from(format!("r{run}"));
        let journal = store.journal(&id, 0).expect("readable");
        let there = journal.len() as u64 - 1;
        // At most the one append in flight may be there without having been acknowledged.
        assert!(there == last || there == last + 1, "run {run}: {there} batches, {last} acknowledged");
        for (number, batch) in journal.into_iter().enumerate().skip(1) {
            let Op::Append { batch: expected, .. } = append("", number as u64, &OwnerId::from("")) else { unreachable!() };
            assert_eq!(batch, expected);
            assert!(store.key("step", &format!("{run}:{number}")).expect("readable").is_some(), "half a unit");
        }
        assert_eq!(store.key("step", &format!("{run}:{}", there + 1)), Ok(None), "half a unit");
    }
}

#[test]
fn a_dead_owners_run_is_taken_over() {
    let home = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(home.path()).expect("opens");
    let mut child = child("hold", home.path());
    let owner = OwnerId::from(said(&mut child).next().expect("its name"));
    assert_eq!(store.is_alive(&owner), Ok(true));
    assert_eq!(store.orphans(9), Ok(vec![]));
    assert_eq!(store.sweep_owners(), Ok(0));
    child.kill().expect("killed");
    child.wait().expect("reaped");
    assert_eq!(store.is_alive(&owner), Ok(false));
    assert_eq!(store.orphans(9).expect("readable").len(), 1);
    assert_eq!(store.sweep_owners(), Ok(0), "its runs are still to be taken over");
    let lease = store.lease().expect("a lease");
    let claim = Op::ClaimRun { run: RunId::from("held"), from: Some(owner), to: lease.owner().clone() };
    store.commit_blocking(claim.clone().into()).expect("claimed");
    assert!(matches!(store.commit_blocking(claim.into()), Err(StoreError::Fenced { .. })));
    assert_eq!(store.sweep_owners(), Ok(1));
    assert_eq!(std::fs::read_dir(home.path().join("owners")).expect("readable").count(), 1);
    drop(lease);
    assert_eq!(std::fs::read_dir(home.path().join("owners")).expect("readable").count(), 0);
}

#[test]
fn eight_processes_open_a_fresh_home_at_once() {
    for _ in 0..5 {
        let parent = tempfile::tempdir().expect("a directory");
        let home = parent.path().join("deep/er");
        let mut children: Vec<_> = (0..8).map(|_| child("open", &home)).collect();
        let voices: Vec<_> = children
            .iter_mut()
            .map(|child| {
                let mut lines = said(child);
                assert_eq!(lines.next().as_deref(), Some("ready"));
                lines
            })
            .collect();
        for child in &mut children {
            child.stdin.take().expect("piped").write_all(b"!").expect("listens");
        }
        for (mut lines, mut child) in voices.into_iter().zip(children) {
            assert_eq!(lines.next().as_deref(), Some("done"));
            assert!(child.wait().expect("ends").success());
        }
        let store = SqliteStore::open(&home).expect("opens");
        assert_eq!(store.list_runs(&viat_store::RunFilter::default()).expect("readable").len(), 40);
    }
}

#[test]
fn processes_that_share_a_run_lose_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(home.path()).expect("opens");
    store.commit_blocking(create("shared", &OwnerId::from("shared")).into()).expect("created");
    let mut children: Vec<_> = (0..4).map(|_| child("count", home.path())).collect();
    for child in &mut children {
        assert_eq!(said(child).last().as_deref(), Some("done"));
        assert!(child.wait().expect("ends").success());
    }
    let journal = store.journal(&RunId::from("shared"), 0).expect("readable");
    assert_eq!(journal.len(), 401);
    for (number, batch) in journal.iter().enumerate().skip(1) {
        assert!(batch.body.starts_with(format!("{number}:").as_bytes()));
    }
}

#[test]
fn another_process_taking_a_run_is_noticed() {
    // Two stores in one process are as strange to each other as two processes: separate connections and caches.
    let home = tempfile::tempdir().expect("a directory");
    let (one, two) = (SqliteStore::open(home.path()).expect("opens"), SqliteStore::open(home.path()).expect("opens"));
    let (a, b) = (OwnerId::from("a"), OwnerId::from("b"));
    one.commit_blocking(create("r", &a).into()).expect("created");
    one.commit_blocking(append("r", 1, &a).into()).expect("appended");
    two.commit_blocking(Op::ClaimRun { run: RunId::from("r"), from: Some(a.clone()), to: b.clone() }.into()).expect("claimed");
    assert!(matches!(one.commit_blocking(append("r", 2, &a).into()), Err(StoreError::Fenced { .. })));
    two.commit_blocking(append("r", 2, &b).into()).expect("appended");
    let stale = one.commit_blocking(append("r", 2, &b).into());
    assert!(matches!(stale, Err(StoreError::Conflict { expected: 2, actual: 3, .. })), "{stale:?}");
    one.commit_blocking(append("r", 3, &b).into()).expect("appended");
}
