//! Homes that cannot be used, disks that fill up, databases that are not right.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use viat_engine::journal::{Batch, Event};
use viat_store::big::{self, Kept};
use viat_store::{EncodedBatch, Hash, Op, Options, OwnerId, RunId, RunRow, SqliteStore, Store, StoreError, Summary};

fn create(id: &str) -> Op {
    let row = RunRow {
        id: RunId::from(id),
        workflow: "w".to_owned(),
        version: 1,
        revision: 1,
        owner: Some(OwnerId::from("o")),
        created_at: 0,
        summary: Summary { status: "running".to_owned(), ..Summary::default() },
    };
    Op::CreateRun { row, first: EncodedBatch { body: b"0".to_vec(), events: 1 } }
}

fn append(id: &str, expected: u64, size: usize) -> Op {
    let batch = EncodedBatch { body: vec![b'x'; size], events: 1 };
    Op::Append { run: RunId::from(id), expected, batch, summary: None, fence: OwnerId::from("o") }
}

fn error(home: &Path) -> StoreError {
    SqliteStore::open(home).err().expect("must not open")
}

/// A file system of its own, unmounted on drop.
struct Mount(tempfile::TempDir);

impl Mount {
    /// `None`, with the reason printed, where mounting is not permitted.
    fn tmpfs(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(dir.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(dir)),
            other => {
                let _ = writeln!(std::io::stdout(), "skipped, mounting is not permitted here: {other:?}");
                None
            }
        }
    }

    fn remount(&self, options: &str) {
        let status = Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(self.0.path()).status();
        assert!(status.expect("mount runs").success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_refuses_whole_units_and_recovers() {
    let Some(disk) = Mount::tmpfs("size=1m") else { return };
    let home = disk.0.path().join("home");
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![0; 300_000]).expect("space");
    let store = SqliteStore::open(&home).expect("opens");
    store.commit_blocking(create("r").into()).expect("created");
    let mut accepted = 1;
    let refusal = loop {
        let unit = vec![append("r", accepted, 20_000), Op::PutBlob { hash: Hash::of(&[accepted as u8]), bytes: Arc::from([accepted as u8]) }];
        match store.commit_blocking(unit.into()) {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 100, "the disk should be full");
    };
    assert!(matches!(refusal, StoreError::DiskFull { .. }), "{refusal:?}");
    let check = |batches: u64| {
        assert_eq!(store.journal(&RunId::from("r"), 0).expect("readable").len() as u64, batches);
        let blob = Hash::of(&[batches as u8]);
        assert_eq!(store.blob(&blob), Ok(None), "half a unit");
    };
    check(accepted);
    for _ in 0..3 {
        assert!(matches!(store.commit_blocking(append("r", accepted, 200_000).into()), Err(StoreError::DiskFull { .. })));
    }
    check(accepted);
    fs::remove_file(&ballast).expect("removed");
    store.commit_blocking(append("r", accepted, 20_000).into()).expect("works again");
    check(accepted + 1);
    drop(store);
    let store = SqliteStore::open(&home).expect("opens again");
    assert_eq!(store.journal(&RunId::from("r"), 0).expect("readable").len() as u64, accepted + 1);
}

#[test]
fn a_full_disk_keeps_nothing_of_a_big_value() {
    let Some(disk) = Mount::tmpfs("size=2m") else { return };
    let store = SqliteStore::open(disk.0.path().join("home")).expect("opens");
    store.commit_blocking(create("r").into()).expect("created");
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![0; 1_000_000]).expect("space");
    let events = vec![Event::Completed { path: "a".into(), output: "x".repeat(900_000).into() }, Event::Adopted { owner: "o".repeat(100_000) }];
    let (batch, mut unit) = big::encode(&Batch { at: 1, events }, &mut Kept::default()).expect("encodes");
    let hashes: Vec<Hash> = unit.iter().filter_map(|op| if let Op::PutBlob { hash, .. } = op { Some(*hash) } else { None }).collect();
    assert_eq!(hashes.len(), 2);
    unit.push(Op::Append { run: RunId::from("r"), expected: 1, batch, summary: None, fence: OwnerId::from("o") });
    for _ in 0..3 {
        assert!(matches!(store.commit_blocking(unit.clone().into()), Err(StoreError::DiskFull { .. })));
        assert!(hashes.iter().all(|hash| store.blob(hash) == Ok(None)), "half a unit");
        assert_eq!(store.journal(&RunId::from("r"), 0).expect("readable").len(), 1);
    }
    fs::remove_file(&ballast).expect("removed");
    store.commit_blocking(unit.into()).expect("works again");
    assert!(hashes.iter().all(|hash| matches!(store.blob(hash), Ok(Some(_)))));
}

#[test]
fn a_full_disk_has_no_room_for_a_home() {
    let Some(disk) = Mount::tmpfs("size=64k") else { return };
    let _ = fs::write(disk.0.path().join("ballast"), vec![0; 100_000]);
    let refusal = error(&disk.0.path().join("home"));
    assert!(matches!(refusal, StoreError::DiskFull { .. }), "{refusal:?}");
}

#[test]
fn a_read_only_home_is_refused() {
    let Some(disk) = Mount::tmpfs("size=4m") else { return };
    let home = disk.0.path().join("home");
    drop(SqliteStore::open(&home).expect("opens"));
    disk.remount("ro");
    for home in [home, disk.0.path().join("new")] {
        let refusal = error(&home);
        assert!(matches!(refusal, StoreError::ReadOnly { .. }), "{refusal:?}");
        assert!(refusal.to_string().contains("cannot be written to"));
    }
}

#[test]
fn files_in_the_way_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    fs::write(&file, "x").expect("written");
    for home in [file.clone(), file.join("below")] {
        let text = error(&home).to_string();
        assert!(text.contains("a file is in the way"), "{text}");
    }
    let home = dir.path().join("home");
    fs::create_dir_all(home.join("viat.db")).expect("made");
    let text = error(&home).to_string();
    assert!(text.contains("a directory is in the way"), "{text}");
}

#[test]
fn modes_keep_others_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = dir.path().join("home");
    let store = SqliteStore::open(&home).expect("opens");
    store.commit_blocking(create("r").into()).expect("created");
    let _lease = store.lease().expect("a lease");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&home), mode(&home.join("owners"))), (0o700, 0o700));
    for name in ["viat.db", "viat.db-wal", "viat.db-shm"] {
        assert_eq!(mode(&home.join(name)), 0o600, "{name}");
    }
    for entry in fs::read_dir(home.join("owners")).expect("readable") {
        assert_eq!(mode(&entry.expect("there").path()), 0o600);
    }
}

#[test]
fn a_damaged_database_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("viat.db"), "this is not a database, but it is long enough to be taken for one".repeat(100)).expect("written");
    let refusal = error(dir.path());
    assert!(matches!(refusal, StoreError::Corrupt { .. }), "{refusal:?}");
}

#[test]
fn damage_in_the_middle_is_reported_by_those_who_meet_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    store.commit_blocking(create("r").into()).expect("created");
    for number in 1..200 {
        store.commit_blocking(append("r", number, 1_000).into()).expect("appended");
    }
    drop(store);
    let db = dir.path().join("viat.db");
    let mut bytes = fs::read(&db).expect("readable");
    let half = bytes.len() / 2;
    bytes[half..].fill(0xa5);
    fs::write(&db, bytes).expect("written");
    let store = SqliteStore::open(dir.path()).expect("the first page is fine");
    let met = [store.journal(&RunId::from("r"), 0).err(), store.commit_blocking(append("r", 200, 10).into()).err()];
    assert!(met.iter().flatten().count() > 0);
    for error in met.into_iter().flatten() {
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    }
}

fn with_pragma(pragma: &str) -> StoreError {
    let dir = tempfile::tempdir().expect("a directory");
    drop(SqliteStore::open(dir.path()).expect("opens"));
    let conn = rusqlite::Connection::open(dir.path().join("viat.db")).expect("opens");
    conn.execute_batch(pragma).expect("set");
    drop(conn);
    error(dir.path())
}

#[test]
fn a_newer_format_is_refused() {
    assert_eq!(with_pragma("PRAGMA user_version = 99"), StoreError::NewerFormat { found: 99, known: 4 });
}

#[test]
fn a_home_from_before_reviews_is_brought_up() {
    let dir = tempfile::tempdir().expect("a directory");
    drop(SqliteStore::open(dir.path()).expect("opens"));
    let conn = rusqlite::Connection::open(dir.path().join("viat.db")).expect("opens");
    conn.execute_batch("DROP TABLE reviews; ALTER TABLE runs DROP COLUMN status_since; ALTER TABLE runs DROP COLUMN moved_to; PRAGMA user_version = 1")
        .expect("made old");
    drop(conn);
    let store = SqliteStore::open(dir.path()).expect("opens");
    assert_eq!(store.reviews(&viat_store::ReviewFilter::default()), Ok(Vec::new()));
}

#[test]
fn a_run_from_before_states_were_timed_counts_from_its_creation() {
    let dir = tempfile::tempdir().expect("a directory");
    SqliteStore::open(dir.path()).expect("opens").commit_blocking(create("r").into()).expect("created");
    let conn = rusqlite::Connection::open(dir.path().join("viat.db")).expect("opens");
    conn.execute_batch("ALTER TABLE runs DROP COLUMN status_since; ALTER TABLE runs DROP COLUMN moved_to; PRAGMA user_version = 2").expect("made old");
    drop(conn);
    let store = SqliteStore::open(dir.path()).expect("opens");
    let row = store.run(&RunId::from("r")).expect("readable").expect("there");
    assert_eq!(row.summary.status_since, None);
    assert_eq!(store.open_runs(&[row.created_at - 1, row.created_at]).expect("readable")[0].since, [0, 1]);
}

#[test]
fn another_programs_database_is_refused() {
    assert!(matches!(with_pragma("PRAGMA application_id = 5"), StoreError::Corrupt { .. }));
    assert!(matches!(with_pragma("PRAGMA application_id = 0"), StoreError::Corrupt { .. }));
}

#[test]
fn a_long_lock_of_somebody_else_is_busy() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options { busy_timeout: Duration::from_millis(50), ..Options::default() };
    let store = SqliteStore::open_with(dir.path(), options).expect("opens");
    let other = rusqlite::Connection::open(dir.path().join("viat.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    assert_eq!(store.commit_blocking(create("r").into()), Err(StoreError::Busy { waited_ms: 50 }));
    assert_eq!(store.run(&RunId::from("r")), Ok(None), "reading is not in anybody's way");
    other.execute_batch("ROLLBACK").expect("unlocked");
    store.commit_blocking(create("r").into()).expect("created");
}

#[test]
fn a_thread_that_writes_itself_leaves_waiting_to_the_writer() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    let other = rusqlite::Connection::open(dir.path().join("viat.db")).expect("opens");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    let (sender, receiver) = channel();
    store.commit_here(create("r").into(), Box::new(move |answer| _ = sender.send((answer, thread::current().id()))));
    assert!(receiver.try_recv().is_err(), "it came back before the lock was free");
    other.execute_batch("ROLLBACK").expect("unlocked");
    let (answer, by) = receiver.recv().expect("called back");
    answer.expect("created");
    assert_ne!(by, thread::current().id());
}

#[test]
fn a_thread_that_writes_itself_is_called_back_on_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    let (sender, receiver) = channel();
    store.commit_here(create("r").into(), Box::new(move |answer| _ = sender.send((answer.is_ok(), thread::current().id()))));
    assert_eq!(receiver.try_recv(), Ok((true, thread::current().id())));
    assert!(matches!(store.run(&RunId::from("r")), Ok(Some(_))));
}

#[test]
fn a_callback_that_panics_or_waits_harms_nobody_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(SqliteStore::open(dir.path()).expect("opens"));
    store.commit(create("a").into(), Box::new(|_| panic!("on purpose")));
    let (sender, receiver) = channel();
    let inner = Arc::clone(&store);
    store.commit(create("b").into(), Box::new(move |_| _ = sender.send(inner.commit_blocking(create("c").into()))));
    assert!(matches!(receiver.recv(), Ok(Err(StoreError::Io { .. }))), "waiting for itself is refused");
    store.commit_blocking(create("d").into()).expect("created");
}

#[test]
fn the_last_handle_may_go_in_a_callback() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(SqliteStore::open(dir.path()).expect("opens"));
    let (barrier, (sender, receiver)) = (Arc::new(Barrier::new(2)), channel());
    let (last, inside) = (Arc::clone(&store), Arc::clone(&barrier));
    let callback = move |_| {
        inside.wait();
        drop(last);
        let _ = sender.send(());
    };
    store.commit(create("a").into(), Box::new(callback));
    drop(store);
    barrier.wait();
    receiver.recv().expect("called back");
}

#[test]
fn the_log_stays_bounded() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(dir.path()).expect("opens");
    store.commit_blocking(create("r").into()).expect("created");
    let (sender, receiver) = channel();
    for number in 1..=3_000 {
        let sender = sender.clone();
        store.commit(append("r", number, 30_000).into(), Box::new(move |answer| _ = sender.send(answer.is_ok())));
    }
    drop(sender);
    assert_eq!(receiver.iter().filter(|accepted| *accepted).count(), 3_000);
    let log = fs::metadata(dir.path().join("viat.db-wal")).expect("there").len();
    assert!(log < 64 << 20, "90 MB were written, and the log has {log} bytes");
}
