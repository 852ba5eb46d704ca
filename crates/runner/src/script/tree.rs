//! The identity of a worker's process tree, and the proof that such a tree is dead.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};

use super::{cgroup, process};

/// The environment variable every process of a tree inherits.
pub(crate) const MARKER: &str = "VIAT_TREE";
const PROOF_LIMIT: Duration = Duration::from_secs(30);

/// Names a process tree for good, across engines: journal it when the attempt is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeId {
    /// The guardian's process id.
    pub guardian: u32,
    /// When the guardian started, in clock ticks since boot.
    pub started: u64,
    /// The random value of `VIAT_TREE` in the tree's environment.
    pub marker: String,
    /// The tree's own cgroup, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
    /// The worker's working directory, removed with the tree.
    pub scratch: PathBuf,
}

/// Proves a tree dead that an earlier engine left behind, killing what still lives; tells whether anything did.
///
/// Call it only when that engine is dead. A daemonised process that wiped its environment and left its folder is
/// found by its cgroup or below a living guardian, not otherwise.
pub async fn kill_leftover(tree: &TreeId) -> io::Result<bool> {
    destroy(tree).await
}

/// Kills from outside what belongs to the tree until two looks in a row find nothing.
pub(crate) async fn destroy(tree: &TreeId) -> io::Result<bool> {
    let until = Instant::now() + PROOF_LIMIT;
    let (mut touched, mut clean) = (Vec::new(), 0);
    while clean < 2 {
        let found = members(tree);
        let populated = tree.cgroup.as_deref().is_some_and(|folder| !cgroup::is_empty(folder));
        if found.is_empty() && !populated {
            clean += 1;
            continue;
        }
        clean = 0;
        if Instant::now() > until {
            return Err(io::Error::new(io::ErrorKind::TimedOut, format!("processes that do not die: {found:?}")));
        }
        if let Some(folder) = &tree.cgroup {
            let _ = cgroup::kill(folder);
        }
        // the guardian last: while it lives, everything below it has it as an ancestor and can be found
        let only_guardian = found.iter().all(|each| each.pid == tree.guardian);
        for each in found.iter().filter(|each| only_guardian || each.pid != tree.guardian) {
            process::kill(each)?;
            touched.push(each.pid);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    reap(tree, &touched);
    if let Some(folder) = &tree.cgroup {
        cgroup::remove(folder);
    }
    let _ = fs::remove_dir_all(&tree.scratch);
    Ok(!touched.is_empty())
}

fn members(tree: &TreeId) -> Vec<process::Stat> {
    let in_cgroup = tree.cgroup.as_deref().map(cgroup::members).unwrap_or_default();
    let mark = format!("{MARKER}={}", tree.marker);
    let guardian = process::stat(tree.guardian).filter(|seen| seen.started == tree.started && !seen.zombie);
    let below = guardian.map(|seen| process::descendants(seen.pid)).unwrap_or_default();
    process::all()
        .into_iter()
        .filter(|pid| *pid != tree.guardian && (in_cgroup.contains(pid) || carries(*pid, &mark, tree) || below.iter().any(|seen| seen.pid == *pid)))
        .filter_map(process::stat)
        .filter(|seen| !seen.zombie)
        .chain(guardian)
        .collect()
}

/// The marker in the environment, or a working directory in the scratch folder: few wipe the one and leave the other.
fn carries(pid: u32, mark: &str, tree: &TreeId) -> bool {
    fs::read(format!("/proc/{pid}/environ")).is_ok_and(|text| text.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()))
        || fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|folder| folder.starts_with(&tree.scratch))
}

/// Orphans of a guardian that died come to the engine, a subreaper; they must not stay zombies.
fn reap(tree: &TreeId, touched: &[u32]) {
    let orphans = process::all()
        .into_iter()
        .filter_map(process::stat)
        .filter(|seen| seen.zombie && seen.parent == std::process::id() && (seen.session == tree.guardian || touched.contains(&seen.pid)));
    for orphan in orphans.filter(|seen| seen.pid != tree.guardian) {
        if let Some(pid) = i32::try_from(orphan.pid).ok().and_then(Pid::from_raw) {
            let _ = waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}
