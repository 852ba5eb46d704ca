//! Both backends before the examiner.

use std::sync::{Arc, Mutex};

use viat_store::{MemoryStore, Options, SqliteStore, Store, conformance};

#[test]
fn memory() {
    conformance::examine(|| Arc::new(MemoryStore::new()));
}

fn sqlite_with(options: Options) {
    let homes = Mutex::new(Vec::new());
    conformance::examine(|| {
        let home = tempfile::tempdir().expect("a directory");
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open_with(home.path(), options).expect("opens"));
        homes.lock().expect("not poisoned").push(home);
        store
    });
}

#[test]
fn sqlite() {
    sqlite_with(Options::default());
}

#[test]
fn sqlite_with_a_tiny_queue() {
    sqlite_with(Options { queued_units: 2, queued_bytes: 1_000, batch_units: 3, batch_bytes: 500, ..Options::default() });
}
