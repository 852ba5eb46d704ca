//! Random units on both backends: every answer and everything that can be read must be the same.

use viat_store::{
    AssetName, At, EncodedBatch, Hash, MemoryStore, Op, OwnerId, Precondition, ReviewFilter, ReviewRow, RunFilter, RunId, RunRow, SqliteStore, Store, Summary,
    Unit,
};

/// A small generator (xorshift), so that a seed in a failure's message is all it takes to see it again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn run(&mut self) -> RunId {
        RunId::from(format!("r{}", self.roll(4)))
    }

    fn owner(&mut self) -> OwnerId {
        OwnerId::from(["a", "b"][self.roll(2) as usize])
    }

    fn asset(&mut self) -> AssetName {
        AssetName::new(["script", "workflow"][self.roll(2) as usize], ["x", "y", "é"][self.roll(3) as usize])
    }

    fn assets(&mut self) -> Vec<AssetName> {
        (0..self.roll(3)).map(|_| self.asset()).collect()
    }

    fn body(&mut self) -> Vec<u8> {
        vec![self.roll(256) as u8; [0, 1, 200, 5_000][self.roll(4) as usize]]
    }

    fn batch(&mut self) -> EncodedBatch {
        EncodedBatch { body: self.body(), events: self.roll(5) as u32 }
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        (self.roll(2) == 0).then_some(value)
    }

    fn summary(&mut self) -> Summary {
        let (wake_at, ended_at) = (self.roll(100) as i64, self.roll(100) as i64);
        Summary {
            status: ["running", "failed"][self.roll(2) as usize].to_owned(),
            wake_at: self.maybe(wake_at),
            error_class: self.maybe("timeout".to_owned()),
            error_code: None,
            ended_at: self.maybe(ended_at).filter(|at| at % 3 == 0),
            status_since: self.maybe(wake_at / 2),
            moved_to: None,
        }
    }

    fn row(&mut self) -> RunRow {
        let (id, owner, summary) = (self.run(), self.owner(), self.summary());
        let workflow = ["v", "w"][self.roll(2) as usize].to_owned();
        RunRow { id, workflow, version: self.roll(9), revision: self.roll(9), owner: self.maybe(owner), created_at: 1, summary }
    }

    fn key(&mut self) -> (String, String) {
        ("s".to_owned(), format!("k{}", self.roll(3)))
    }

    fn precondition(&mut self) -> Precondition {
        match self.roll(5) {
            0 => Precondition::AssetAbsent(self.asset()),
            1 => Precondition::AssetVersion(self.asset(), self.roll(4)),
            2 => Precondition::Revision(self.roll(30)),
            3 => {
                let (space, key) = self.key();
                Precondition::KeyIs { space, key, value: vec![self.roll(2) as u8] }
            }
            _ => Precondition::AssetLive(self.asset()),
        }
    }

    fn op(&mut self, stores: &dyn Store) -> Op {
        match self.roll(16) {
            0 => Op::CreateRun { row: self.row(), first: self.batch() },
            1..=4 => {
                let run = self.run();
                // Mostly right, or nothing much would ever be accepted.
                let there = stores.journal(&run, 0).map_or(0, |batches| batches.len() as u64);
                let owner = stores.run(&run).expect("readable").and_then(|row| row.owner).unwrap_or_else(|| self.owner());
                let (expected, fence, summary) = (there + self.roll(8) / 7, owner, self.summary());
                Op::Append { run, expected, batch: self.batch(), summary: self.maybe(summary), fence }
            }
            5 => {
                let (from, to) = (self.owner(), self.owner());
                Op::ClaimRun { run: self.run(), from: self.maybe(from), to }
            }
            6 => Op::ReleaseRun { run: self.run(), owner: self.owner() },
            7 => {
                let (space, key) = self.key();
                Op::ClaimKey { space, key, value: vec![self.roll(2) as u8] }
            }
            8 => {
                let (space, key) = self.key();
                if self.roll(2) == 0 { Op::DropKey { space, key } } else { Op::SetKey { space, key, value: vec![self.roll(2) as u8] } }
            }
            9 => {
                let bytes = vec![self.roll(4) as u8];
                Op::PutBlob { hash: Hash::of(&bytes), bytes: bytes.into() }
            }
            10 | 11 => {
                let body = self.body();
                Op::PutAsset { name: self.asset(), hash: Hash::of(&body), body, refs: self.assets(), at: self.roll(99) as i64 }
            }
            13 => {
                let (by, due) = (self.roll(9).to_string(), self.roll(99) as i64);
                Op::PutReview(ReviewRow {
                    id: format!("v{}", self.roll(4)),
                    run: self.run(),
                    path: "a".to_owned(),
                    title: "t".to_owned(),
                    assignees: (0..self.roll(3)).map(|number| format!("n{number}")).collect(),
                    status: ["pending_review", "approved"][self.roll(2) as usize].to_owned(),
                    created_at: 1,
                    due: self.maybe(due),
                    decided_at: None,
                    by: self.maybe(by),
                    comment: None,
                })
            }
            12 => Op::DeleteAsset { name: self.asset(), at: self.roll(99) as i64 },
            14 => Op::EraseAsset { name: self.asset(), below: self.roll(5) },
            _ => Op::SetRefs { from: self.asset(), version: self.roll(5), to: self.assets() },
        }
    }

    fn unit(&mut self, stores: &dyn Store) -> Unit {
        let guard = (0..self.roll(5) / 4).map(|_| self.precondition()).collect();
        let ops = (0..1 + self.roll(4) / 2).map(|_| self.op(stores)).collect();
        Unit { guard, ops }
    }
}

/// Everything that can be read, as text.
fn everything(store: &dyn Store) -> String {
    let mut told = Vec::new();
    let filters = [
        RunFilter::default(),
        RunFilter { status: Some("failed".to_owned()), ..RunFilter::default() },
        RunFilter { workflow: Some("v".to_owned()), before: Some(RunId::from("r1")), limit: 2, ..RunFilter::default() },
    ];
    for filter in filters {
        told.push(format!("{filter:?}: {:?}", store.list_runs(&filter)));
    }
    for run in ["r0", "r1", "r2", "r3"].map(RunId::from) {
        told.push(format!("{run}: {:?} {:?} {:?}", store.run(&run), store.journal(&run, 0), store.journal(&run, 3)));
    }
    for owner in ["a", "b"].map(OwnerId::from) {
        told.push(format!("due of {owner}: {:?} next {:?}", store.runs_due(&owner, 50, 9), store.next_wake(&owner)));
    }
    told.push(format!("{:?}", store.open_runs(&[0, 20, 40])));
    for kind in ["script", "workflow"] {
        for name in ["x", "y", "é"].map(|name| AssetName::new(kind, name)) {
            let ats = [At::Latest, At::Version(2), At::Revision(10), At::Revision(25)].map(|at| store.asset(&name, at));
            told.push(format!("{name}: {ats:?} {:?} {:?}", store.asset_versions(&name), store.referrers(&name)));
        }
    }
    let some = |text: &str| Some(text.to_owned());
    for filter in [ReviewFilter::default(), ReviewFilter { status: some("approved"), assignee: some("n1"), before: some("v1"), ..ReviewFilter::default() }] {
        told.push(format!("{filter:?}: {:?}", store.reviews(&filter)));
    }
    told.push(format!("{:?} {:?} {:?}", store.revision(), store.assets(None, None), store.assets(Some("script"), Some(12))));
    told.push(format!("{:?}", ["k0", "k1", "k2"].map(|key| store.key("s", key))));
    told.push(format!("{:?}", [0, 1, 2, 3].map(|byte| store.blob(&Hash::of(&[byte])))));
    told.join("\n")
}

#[test]
fn backends_agree() {
    for seed in 1..=12u64 {
        let home = tempfile::tempdir().expect("a directory");
        let (memory, sqlite) = (MemoryStore::new(), SqliteStore::open(home.path()).expect("opens"));
        // A second handle now and then: its commits must be as visible to the first as another process's.
        let stranger = SqliteStore::open(home.path()).expect("opens");
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut accepted = 0;
        for step in 0..250 {
            let unit = dice.unit(&memory);
            let expected = memory.commit_blocking(unit.clone());
            let handle = if dice.roll(3) == 0 { &stranger } else { &sqlite };
            assert_eq!(handle.commit_blocking(unit.clone()), expected, "seed {seed}, step {step}: {unit:?}");
            accepted += u32::from(expected.is_ok());
            if step % 10 == 0 {
                assert_eq!(everything(&sqlite), everything(&memory), "seed {seed}, step {step}: {unit:?}");
            }
        }
        assert!(accepted > 60, "only {accepted} of seed {seed}'s units were accepted");
    }
}
