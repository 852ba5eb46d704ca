//! `viat doctor`: checks what viat needs on this machine, and says how to fix what is missing.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use viat_runner::resources;
use viat_runner::script::{cgroup_holds, uses_cgroups};

use super::error::CliError;
use super::isolation;
use super::output::Output;
use crate::wiring::Home;

/// Less free space than this is worth a warning, in bytes.
const LITTLE_SPACE: u64 = 256 << 20;

/// One thing that was looked at.
struct Check {
    name: &'static str,
    verdict: Verdict,
    found: String,
    fix: Option<String>,
}

#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Good,
    Poor,
    Bad,
}

/// Checks everything; exits 4 if something that viat cannot do without is missing.
pub fn run(folder: &Path, output: &Output) -> Result<ExitCode, CliError> {
    let home = Home::open(folder);
    let mut checks = vec![database(folder, &home)];
    if let Ok(home) = &home {
        checks.push(python(home));
        checks.push(node(home));
        checks.push(shell());
        checks.extend(tools(home));
        checks.extend(secrets(home));
        checks.push(sync(folder));
        checks.push(space(folder));
        checks.extend(strict(home));
    }
    checks.push(trees());
    let bad = checks.iter().any(|check| check.verdict == Verdict::Bad);
    if output.json {
        let rows: Vec<_> =
            checks.iter().map(|check| json!({"check": check.name, "verdict": check.verdict.name(), "found": check.found, "fix": check.fix})).collect();
        output.value(&rows)?;
    } else {
        for check in &checks {
            output.line(&format!("{:<5} {:<10} {}", check.verdict.name(), check.name, check.found))?;
            if let Some(fix) = &check.fix {
                output.line(&format!("{:<16} → {fix}", ""))?;
            }
        }
    }
    Ok(if bad { ExitCode::from(4) } else { ExitCode::SUCCESS })
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::Good => "ok",
            Verdict::Poor => "warn",
            Verdict::Bad => "FAIL",
        }
    }
}

fn database(folder: &Path, home: &Result<Home, CliError>) -> Check {
    let bad = |found: String, fix: &str| Check { name: "database", verdict: Verdict::Bad, found, fix: Some(fix.to_owned()) };
    let home = match home {
        Ok(home) => home,
        Err(error) => return bad(error.message().to_owned(), "name a folder that can be written with --home or VIAT_HOME"),
    };
    match home.store.check() {
        Ok(()) => {
            let found = format!("{} is whole; WAL, synchronous=FULL", folder.join("viat.db").display());
            Check { name: "database", verdict: Verdict::Good, found, fix: None }
        }
        Err(error) => bad(error.to_string(), "restore it from a backup"),
    }
}

fn python(home: &Home) -> Check {
    let fix = Some("install python3 (3.9 or newer), or name one in VIAT_PYTHON".to_owned());
    let interpreter = match home.interpreter() {
        Ok(interpreter) => interpreter,
        Err(error) => return Check { name: "python", verdict: Verdict::Bad, found: error.message().to_owned(), fix },
    };
    let began = Instant::now();
    let asked = std::process::Command::new(&interpreter.path).args(["-I", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"]).output();
    match asked {
        Ok(answer) if answer.status.success() => {
            let version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            let found = format!("{} {version}, starts in {} ms", interpreter.path.display(), began.elapsed().as_millis());
            let old = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor < 9);
            Check { name: "python", verdict: if old { Verdict::Bad } else { Verdict::Good }, found, fix: if old { fix } else { None } }
        }
        Ok(answer) => Check { name: "python", verdict: Verdict::Bad, found: format!("{} ends with {}", interpreter.path.display(), answer.status), fix },
        Err(error) => Check { name: "python", verdict: Verdict::Bad, found: format!("{} cannot be started: {error}", interpreter.path.display()), fix },
    }
}

/// Scripts in Python are what viat cannot do without; the rest is missed only by who uses it.
fn node(home: &Home) -> Check {
    match home.node() {
        Ok(node) => {
            let types = if node.strips { "takes types out of TypeScript by itself" } else { "types of TypeScript are taken out by a module that npm installs" };
            Check { name: "node", verdict: Verdict::Good, found: format!("{} {}; {types}", node.path.display(), node.version), fix: None }
        }
        Err(error) => Check {
            name: "node",
            verdict: Verdict::Poor,
            found: format!("{}; scripts in javascript cannot be created", error.message()),
            fix: error.help_text().map(str::to_owned),
        },
    }
}

/// What builds environments: missed only by scripts that need one.
fn tools(home: &Home) -> [Check; 2] {
    let tools = home.tools();
    let check = |name: &'static str, found: Option<std::path::PathBuf>, fix: &str| match found {
        Some(path) => Check { name, verdict: Verdict::Good, found: path.display().to_string(), fix: None },
        None => Check { name, verdict: Verdict::Poor, found: "not there; scripts with dependencies need it".to_owned(), fix: Some(fix.to_owned()) },
    };
    [
        check("uv", tools.uv, "install uv (pip install uv), or name one in VIAT_UV"),
        check("npm", tools.npm, "install npm (Debian: apt-get install npm), or name one in VIAT_NPM"),
    ]
}

fn shell() -> Check {
    let found = std::process::Command::new("sh").args(["-c", "exit 0"]).status();
    let works = found.is_ok_and(|status| status.success());
    let verdict = if works { Verdict::Good } else { Verdict::Poor };
    let text = if works { "sh works" } else { "there is no sh; scripts in shell cannot be created" };
    Check { name: "shell", verdict, found: text.to_owned(), fix: (!works).then(|| "install a POSIX shell (Debian: apt-get install dash)".to_owned()) }
}

/// Whether what is sealed can be opened; nothing where there are no secrets.
fn secrets(home: &Home) -> Option<Check> {
    let check = |verdict, found: String, fix: Option<String>| Some(Check { name: "secrets", verdict, found, fix });
    let needed = match resources::keys_in_use(home.store.as_ref()) {
        Ok(needed) if needed.is_empty() => return None,
        Ok(needed) => needed,
        Err(error) => return check(Verdict::Bad, error.to_string(), None),
    };
    let keys = home.keys();
    let ring = match keys.load() {
        Ok(ring) => ring,
        Err(error) => return check(Verdict::Bad, error.to_string(), None),
    };
    if let Some((key, name)) = needed.iter().find(|(key, _)| !ring.has(key)) {
        return check(Verdict::Bad, ring.missing(&format!("secret {name}"), key).to_string(), None);
    }
    if keys.are_open_to_others() {
        let file = keys.file().display().to_string();
        return check(Verdict::Poor, format!("others may read {file}"), Some(format!("chmod 600 {file}")));
    }
    check(Verdict::Good, format!("what is sealed can be opened; key {} seals", ring.first_id().unwrap_or_default()), None)
}

/// How long the disk takes to make a small write durable: the floor of every step.
fn sync(folder: &Path) -> Check {
    let probe = folder.join("doctor.probe");
    let result = time_syncs(&probe);
    let _ = std::fs::remove_file(&probe);
    match result {
        Ok(ms) => {
            let slow = ms > 20.0;
            let fix = slow.then(|| "each step waits for one such write: put the home on a faster disk".to_owned());
            Check { name: "disk", verdict: if slow { Verdict::Poor } else { Verdict::Good }, found: format!("a durable write takes {ms:.2} ms"), fix }
        }
        Err(error) => Check { name: "disk", verdict: Verdict::Bad, found: format!("{} cannot be written durably: {error}", probe.display()), fix: None },
    }
}

fn time_syncs(probe: &Path) -> std::io::Result<f64> {
    use std::io::Write;
    const WRITES: u32 = 20;
    let mut file = std::fs::File::create(probe)?;
    let began = Instant::now();
    for _ in 0..WRITES {
        file.write_all(&[0; 512])?;
        file.sync_data()?;
    }
    Ok(began.elapsed().as_secs_f64() * 1000.0 / f64::from(WRITES))
}

fn space(folder: &Path) -> Check {
    match rustix::fs::statvfs(folder) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let little = free < LITTLE_SPACE;
            let fix = little.then(|| "free some space: a full disk stops every run until there is some".to_owned());
            Check { name: "space", verdict: if little { Verdict::Poor } else { Verdict::Good }, found: format!("{} MiB free", free >> 20), fix }
        }
        Err(error) => Check { name: "space", verdict: Verdict::Poor, found: format!("cannot be asked: {error}"), fix: None },
    }
}

/// What holds scripts that are not trusted; only who needs that misses it.
fn strict(home: &Home) -> Vec<Check> {
    match isolation::in_force(home) {
        Ok(found) => {
            let landlock = found.landlock.map_or("no Landlock".to_owned(), |version| format!("Landlock {version}"));
            let user = if found.other_user { "another user than the engine's" } else { "the engine's user without rights" };
            let text = format!("can be had: user, mount, pid, network, ipc and uts namespaces, seccomp, no new privileges, {landlock}; as {user}");
            let fix = found.landlock.is_none().then(|| "Landlock is a second lock on files: Linux 5.13 or newer with landlock among its `lsm=`".to_owned());
            vec![Check { name: "strict", verdict: Verdict::Good, found: text, fix }]
        }
        Err(problem) => {
            vec![Check { name: "strict", verdict: Verdict::Poor, found: format!("cannot be had: {problem}"), fix: Some(isolation::HOW.to_owned()) }]
        }
    }
}

/// How a script's whole process tree is ended, and what holds its limits.
fn trees() -> Check {
    if uses_cgroups() {
        let (held, fix) = match cgroup_holds().join(" and ") {
            held if held.is_empty() => (
                "which holds no limits: resource limits and the guardian's watch do".to_owned(),
                Some("for limits that the kernel holds delegate the memory and pids controllers (systemd: Delegate=yes)".to_owned()),
            ),
            held => (format!("which holds its limits of {held}"), None),
        };
        return Check { name: "processes", verdict: Verdict::Good, found: format!("each worker has a guardian and a cgroup of its own, {held}"), fix };
    }
    let fix = Some("for the stronger proof run viat where it may make cgroups (v2, writable)".to_owned());
    Check {
        name: "processes",
        verdict: Verdict::Good,
        found: "each worker has a guardian; cgroups cannot be made here, so memory and processes are limited by resource limits and the guardian's watch"
            .to_owned(),
        fix,
    }
}
