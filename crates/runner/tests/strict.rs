//! The strict profile: what a script in a cell cannot do, and that it works otherwise as it does elsewhere.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use serde_json::json;
use support::{Bench, config, fault, script, script_in, value};
use viat_runner::script::{FaultKind, Interpreter, Language, Profile, ScriptCode, probe_strict};

fn bench() -> Bench {
    Bench::with(|config| config.profile = Profile::Strict)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_cell_can_be_had_and_is_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let found = probe_strict(&config(folder.path())).unwrap();
    assert!(found.seccomp && found.no_new_privs, "{found:?}");
    assert_eq!((found.foreign_processes, found.networks), (0, 0), "{found:?}");
    assert_eq!(found.other_user, is_root(), "{found:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("scratch")).unwrap().count(), 0);
}

/// What each language says of a thing it tries, in the attempt's folder and outside of it.
#[tokio::test]
async fn scripts_of_each_language_work_and_write_in_their_folder_only() {
    let bench = bench();
    let outside = bench.path("outside");
    let python = script("import os\ndef main(outside):\n    open('inside', 'w').write('x')\n    try:\n        open(outside, 'w')\n    except OSError as error:\n        return [sorted(os.listdir('.')), error.strerror, os.environ['HOME'] == os.getcwd() == os.environ['TMPDIR']]\n");
    let javascript = script_in(
        Language::JavaScript,
        "import fs from 'node:fs';\nexport default async function main({outside}) {\n  fs.writeFileSync('inside', 'x');\n  try { fs.writeFileSync(outside, 'x'); } catch (error) { return [fs.readdirSync('.'), error.code, process.env.HOME === process.cwd()]; }\n}\n",
    );
    let shell = script_in(Language::Shell, "echo x > inside\ntouch \"$VIAT_ARG_OUTSIDE\" && echo written || ls\n");
    let args = json!({ "outside": outside }).to_string();
    for _ in 0..2 {
        assert_eq!(*value(&bench.call(&python, &args).await), json!([["inside"], "Read-only file system", true]));
        assert_eq!(*value(&bench.call(&javascript, &args).await), json!([["inside"], "EROFS", true]));
        assert_eq!(*value(&bench.call(&shell, &args).await), json!("inside"));
    }
    assert!(!outside.exists());
}

#[tokio::test]
async fn a_process_left_behind_ends_with_its_attempt() {
    let bench = bench();
    let code = script("import subprocess\ndef main():\n    subprocess.Popen(['sleep', '3600'], start_new_session=True)\n    return 'done'\n");
    let worker = bench.pools.reserve(Arc::clone(&code)).await.unwrap();
    let tree = worker.tree();
    drop(worker);
    assert_eq!(*value(&bench.call(&code, "{}").await), json!("done"));
    assert!(!tree.scratch.exists());
    assert!(!std::path::Path::new(&format!("/proc/{}", tree.guardian)).exists());
}

#[tokio::test]
async fn limits_hold_in_a_cell() {
    let bench = bench();
    let limited = |source: &str, change: fn(&mut ScriptCode)| {
        let mut code = ScriptCode::clone(&script(source));
        change(&mut code);
        Arc::new(code)
    };
    let cpu = limited("def main():\n    while True: pass\n", |code| code.settings.limits.cpu_s = Some(1));
    assert!(fault(&bench.call(&cpu, "{}").await, FaultKind::ScriptBroken).message.contains("limits.cpu"));
    let memory = limited("def main():\n    return len(bytearray(400 << 20))\n", |code| code.settings.limits.memory = Some(200 << 20));
    assert_eq!(fault(&bench.call(&memory, "{}").await, FaultKind::Exception).code, "MemoryError");
}

#[tokio::test]
async fn what_cannot_be_started_is_said() {
    let none = Bench::with(|config| (config.profile, config.interpreter) = (Profile::Strict, Some(Interpreter::at("/nowhere/python3"))));
    let said = none.pools.reserve(script("def main(): pass")).await.unwrap_err();
    assert!(said.kind == FaultKind::PoolSpawnFailed && said.message.contains("/nowhere/python3"), "{}", said.message);
    let false_one = Bench::with(|config| (config.profile, config.interpreter) = (Profile::Strict, Some(Interpreter::at("/bin/false"))));
    let said = false_one.pools.reserve(script("def main(): pass")).await.unwrap_err();
    assert!(said.message.contains("exited with code 1"), "{}", said.message);
}
