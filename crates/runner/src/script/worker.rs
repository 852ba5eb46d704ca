//! One warm worker: its guardian, its ends, its tree, from the start to the proven death.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::{PoolConfig, RunnerConfig, ScriptCode, environment};
use super::ends::{Arrival, Ends};
use super::fault::Fault;
use super::guardian::Charge;
use super::launch::{Launch, init_frame};
use super::limits::{Limits, resident};
use super::log::LogBuffer;
use super::strict::{Cell, Profile, hand_over, refusal};
use super::tree::{MARKER, TreeId, destroy};
use super::{cgroup, process};

/// How long a guardian may take to kill its tree before the engine does it from outside.
const GUARDIAN_LIMIT: Duration = Duration::from_secs(5);

/// Calls between two looks at a worker's memory.
const LOOK_EVERY: u64 = 32;

/// The folder in the tree's scratch folder that an attempt has as its working directory.
pub(crate) const WORK: &str = "work";

/// A process that has loaded a script and waits for calls.
pub(crate) struct Worker {
    pub(crate) tree: TreeId,
    pub(crate) ends: Ends,
    /// A second handle of the control socket: a shutdown kills with it while an attempt holds the worker.
    pub(crate) switch: Arc<UnixStream>,
    guardian: Child,
    pid: u32,
    /// Whose children the worker and its orphans are: the guardian's, or the keeper's of its cell.
    parent: u32,
    limits: Limits,
    /// The user that it is, if not the engine's.
    user: Option<u32>,
    /// Kept open: whether an attempt left processes behind is one `pread` then.
    members: Option<fs::File>,
    /// Whether the script's top level ran through.
    pub(crate) loaded: bool,
    /// Written while the script was loaded; it belongs to the first attempt's log.
    pub(crate) early_log: Option<LogBuffer>,
    pub(crate) calls: u64,
    /// How many of them its pool has counted.
    counted: u64,
    /// What it took of memory when it was looked at first, in bytes.
    first_resident: Option<u64>,
    /// It has served its calls, or grown by too much: it is to be replaced.
    pub(crate) worn: bool,
    /// It has served its calls, and another worker has been started to take its place.
    pub(crate) succeeded: bool,
    pub(crate) idle_since: Instant,
}

impl Worker {
    /// Waits until a started worker has loaded its script; one that cannot is dead when this returns.
    pub(crate) async fn load(mut self, config: &RunnerConfig, code: &ScriptCode) -> Result<Worker, Fault> {
        let mut log = LogBuffer::new(config.log_limit);
        self.ends.send(init_frame(config, code));
        let ready = tokio::time::timeout(config.spawn_limit, self.until_ready(&mut log)).await;
        let problem = match ready {
            Ok(Ok(())) => {
                self.members = self.tree.cgroup.as_ref().and_then(|folder| fs::File::open(folder.join("cgroup.procs")).ok());
                self.ends.drain_log(&mut log);
                self.early_log = Some(log);
                return Ok(self);
            }
            Ok(Err(problem)) => problem,
            Err(_) => format!("it was not ready within {} s", config.spawn_limit.as_secs_f32()),
        };
        let _ = self.kill(&mut log).await;
        let said = log.finish().text();
        let said = said.trim();
        let tail = said.char_indices().rev().nth(999).map_or(said, |(at, _)| &said[at..]);
        let message = format!("no worker process could be started for script {}: {problem}", code.name);
        Err(Fault::no_worker(if tail.is_empty() { message } else { format!("{message}\n{tail}") }))
    }

    /// Starts the guardian, which starts the worker.
    pub(crate) fn start(config: &RunnerConfig, cgroups: Option<&PathBuf>, code: &ScriptCode) -> Result<Worker, Fault> {
        if let Some(fault) = (config.profile == Profile::Strict).then(|| refusal(config, code)).flatten() {
            return Err(fault);
        }
        let launch = Launch::of(config, code)?;
        Worker::start_with(config, cgroups, code, &launch)
            .map_err(|error| Fault::no_worker(format!("no worker process could be started for script {}: {error}", code.name)))
    }

    fn start_with(config: &RunnerConfig, cgroups: Option<&PathBuf>, code: &ScriptCode, launch: &Launch) -> io::Result<Worker> {
        let marker = fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_string();
        let scratch = config.scratch.join(&marker);
        let cell = (config.profile == Profile::Strict).then(|| Cell::of(config, code, launch, &scratch, &marker));
        let user = cell.as_ref().and_then(|cell| cell.user);
        make_scratch(&scratch, user)?;
        let cgroup = cgroups.map(|folder| folder.join(format!("{}{marker}", cgroup::PREFIX))).filter(|folder| fs::create_dir(folder).is_ok());
        let mut tree = TreeId { guardian: 0, started: 0, marker, cgroup, scratch };
        match Worker::start_guardian(config, &mut tree, code, launch, cell) {
            Ok((guardian, ends, switch)) => Ok(Worker {
                switch,
                tree,
                ends,
                guardian,
                pid: 0,
                parent: 0,
                limits: config.limits_of(code),
                user,
                members: None,
                loaded: false,
                early_log: None,
                calls: 0,
                counted: 0,
                first_resident: None,
                worn: false,
                succeeded: false,
                idle_since: Instant::now(),
            }),
            Err(error) => {
                tree.cgroup.as_deref().map(cgroup::remove);
                let _ = fs::remove_dir_all(&tree.scratch);
                Err(error)
            }
        }
    }

    fn start_guardian(
        config: &RunnerConfig,
        tree: &mut TreeId,
        code: &ScriptCode,
        launch: &Launch,
        cell: Option<Cell>,
    ) -> io::Result<(Child, Ends, Arc<UnixStream>)> {
        let (protocol, worker_protocol) = UnixStream::pair()?;
        let (control, guardian_control) = UnixStream::pair()?;
        let switch = Arc::new(control.try_clone()?);
        let (log, worker_log) = io::pipe()?;
        let _ = rustix::pipe::fcntl_setpipe_size(&log, 256 << 10);
        if let Some(id) = cell.as_ref().and_then(|cell| cell.user) {
            // else it could not be opened as /dev/stderr
            rustix::fs::fchown(&worker_log, Some(rustix::fs::Uid::from_raw(id)), None)?;
        }
        let ends = Ends::new(protocol.into(), control.into(), log.into(), config.value_limit_of(code))?;
        let (program, args) = config.guardian.split_first().ok_or_else(|| io::Error::other("no guardian is configured"))?;
        let charge = Charge {
            cgroup: tree.cgroup.clone().map(Into::into),
            scratch: tree.scratch.clone().into(),
            language: code.language.name().to_owned(),
            limits: config.limits_of(code),
            cell,
        };
        let mut guardian = Command::new(program)
            .args(args)
            .arg(serde_json::to_string(&charge)?)
            .arg(&launch.program)
            .args(&launch.args)
            .env_clear()
            .envs(environment(&config.env_allow, &code.settings.env))
            .envs(charge.cell.iter().flat_map(|cell| cell.environment(WORK)))
            .env(MARKER, &tree.marker)
            .current_dir(&tree.scratch)
            .stdin(Stdio::from(OwnedFd::from(worker_protocol)))
            .stdout(Stdio::from(OwnedFd::from(guardian_control)))
            .stderr(Stdio::from(OwnedFd::from(worker_log)))
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("the guardian {}: {error}", program.to_string_lossy())))?;
        tree.guardian = guardian.id();
        match process::stat(guardian.id()) {
            Some(stat) => tree.started = stat.started,
            None => {
                let _ = guardian.kill().and_then(|()| guardian.wait().map(drop));
                return Err(io::Error::other("/proc does not show the guardian"));
            }
        }
        Ok((guardian, ends, switch))
    }

    /// Waits for the guardian's word and the worker's; they come in any order.
    async fn until_ready(&mut self, log: &mut LogBuffer) -> Result<(), String> {
        let mut ready = false;
        while !ready || self.pid == 0 {
            match std::future::poll_fn(|cx| self.ends.poll_arrival(cx, log)).await {
                Arrival::Frame(frame) if frame.kind() == b'k' && !ready => {
                    self.loaded = frame.body() == b"true";
                    ready = true;
                }
                // what the guardian has to say about it follows
                Arrival::ProtocolClosed => {}
                Arrival::Frame(_) | Arrival::Garbage(_) => return Err("it does not keep to the protocol".to_string()),
                Arrival::Control(line) => match line.split_at_checked(1) {
                    Some(("s", pids)) => {
                        let pids = pids.split_once(' ').and_then(|(pid, parent)| Some((pid.parse().ok()?, parent.parse().ok()?)));
                        (self.pid, self.parent) = pids.ok_or_else(|| format!("its guardian says {line:?}"))?;
                    }
                    Some(("f", reason)) => return Err(reason.to_string()),
                    Some(("e", how)) => return Err(format!("the interpreter {}", self.explain(how))),
                    Some(("l", sentence)) => return Err(sentence.to_string()),
                    _ => return Err("its tree died".to_string()),
                },
                Arrival::ControlClosed => return Err("its guardian died".to_string()),
            }
        }
        Ok(())
    }

    /// Whether the worker, found idle, can take an attempt.
    pub(crate) fn is_fit(&self) -> bool {
        self.ends.is_quiet()
    }

    /// Calls since this was last asked.
    pub(crate) fn uncounted(&mut self) -> u64 {
        self.calls - std::mem::replace(&mut self.counted, self.calls)
    }

    /// Sees whether the worker is to be replaced. What it has taken by the first look are its caches; what comes on top later is a leak.
    pub(crate) fn wear(&mut self, config: &PoolConfig) {
        self.worn |= self.calls >= config.recycle_after;
        if !self.worn && self.calls.is_multiple_of(LOOK_EVERY) && self.calls > 0 {
            let resident = resident(self.pid);
            let first = *self.first_resident.get_or_insert(resident);
            self.worn = resident.saturating_sub(first) > config.recycle_growth;
        }
    }

    /// Readies the worker for an attempt's limits.
    pub(crate) fn prepare(&self) {
        self.limits.allow_cpu(self.pid);
    }

    /// What the worker's limits add to how it ended.
    pub(crate) fn explain(&self, how: &str) -> String {
        match self.limits.cpu_s {
            _ if how.contains("SIGXFSZ") => format!("{how}: it wrote a file that is larger than its limit (limits.disk)"),
            Some(seconds) if how.contains("SIGXCPU") => format!("{how}: it used more processor time than its limit of {seconds} s (limits.cpu)"),
            _ => how.to_owned(),
        }
    }

    /// Removes what the attempt left in its working directory; says what cannot be removed.
    pub(crate) async fn clear_work(&self) -> io::Result<()> {
        let work = self.tree.scratch.join(WORK);
        if fs::read_dir(&work).is_ok_and(|mut entries| entries.next().is_none()) {
            return Ok(());
        }
        let user = self.user;
        let cleared = tokio::task::spawn_blocking(move || {
            let removed = match fs::symlink_metadata(&work) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&work),
                Ok(_) => fs::remove_file(&work),
                Err(_) => Ok(()),
            };
            removed.and_then(|()| fs::create_dir_all(&work)).and_then(|()| hand_over(&work, user))
        });
        cleared.await.map_err(io::Error::other)?
    }

    /// Whether processes other than the worker itself live in its tree.
    pub(crate) fn has_strays(&self) -> bool {
        let Some(file) = &self.members else { return self.has_strays_by_parent() };
        let mut text = [0u8; 64];
        match rustix::io::pread(file, &mut text[..], 0) {
            Ok(count) => text[..count].iter().filter(|byte| **byte == b'\n').count() != 1,
            Err(_) => true,
        }
    }

    fn has_strays_by_parent(&self) -> bool {
        let (worker, parent, guardian) = (self.pid.to_string(), self.parent.to_string(), self.tree.guardian.to_string());
        let children = |of: &str, own: &str| match fs::read_dir(format!("/proc/{of}/task")) {
            Ok(threads) => threads
                .flatten()
                .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
                .any(|text| text.split_ascii_whitespace().any(|pid| pid != own && lives(pid))),
            Err(_) => true,
        };
        children(&worker, "") || children(&parent, &worker) || (parent != guardian && children(&guardian, &parent))
    }

    /// Kills the whole tree and returns once it is proven dead; `Err` names what does not die.
    pub(crate) async fn kill(&mut self, log: &mut LogBuffer) -> io::Result<()> {
        self.ends.tell("k");
        let dead = tokio::time::timeout(GUARDIAN_LIMIT, self.until_dead(log)).await.unwrap_or(false);
        if !dead {
            let _ = self.guardian.kill();
            destroy(&self.tree).await?;
        }
        self.guardian.wait()?; // its end of the control socket is closed, so it is gone or going
        self.ends.drain_log(log);
        if let Some(folder) = &self.tree.cgroup {
            cgroup::remove(folder);
        }
        let _ = fs::remove_dir_all(&self.tree.scratch);
        Ok(())
    }

    async fn until_dead(&mut self, log: &mut LogBuffer) -> bool {
        let mut dead = false;
        loop {
            match std::future::poll_fn(|cx| self.ends.poll_arrival(cx, log)).await {
                Arrival::Control(line) => dead |= line == "d",
                Arrival::ControlClosed => return dead,
                Arrival::Frame(_) | Arrival::Garbage(_) | Arrival::ProtocolClosed => {}
            }
        }
    }

    /// A guardian that has ended by itself must be waited for, or it stays a zombie.
    pub(crate) fn into_guardian(self) -> Child {
        self.guardian
    }
}

/// The worker's folder, and in it the attempt's.
fn make_scratch(scratch: &Path, user: Option<u32>) -> io::Result<()> {
    let work = scratch.join(WORK);
    fs::create_dir_all(&work)?;
    fs::set_permissions(scratch, fs::Permissions::from_mode(0o700))?;
    hand_over(&work, user).and_then(|()| hand_over(scratch, user))
}

fn lives(pid: &str) -> bool {
    pid.parse().ok().and_then(process::stat).is_some_and(|seen| !seen.zombie)
}
