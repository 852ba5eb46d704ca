//! What an attempt may use: each limit of `[tool.viat]` holds, is named in the failure, and the next attempt works.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;

use support::{Bench, fault, until, value};
use viat_runner::script::{FaultKind, Language, Metadata, ScriptCode};

/// A script with the settings of its own `script` block.
fn limited(language: Language, limits: &str, body: &str) -> Arc<ScriptCode> {
    let mark = if language == Language::JavaScript { "//" } else { "#" };
    let block = format!("{mark} /// script\n{mark} [tool.viat]\n{mark} limits = {{{limits}}}\n{mark} ///\n");
    let source = format!("{block}{body}");
    let settings = Metadata::of(language, &source).unwrap().settings;
    Arc::new(ScriptCode { settings, ..ScriptCode::new("limited", 1, language, source.as_str(), source.as_str()) })
}

#[tokio::test]
async fn memory_is_limited_for_the_whole_tree() {
    let bench = Bench::new();
    let body = "import subprocess, sys\ndef main(how):\n    if how == 'self':\n        x = bytearray(400 << 20)\n        for at in range(0, len(x), 4096): x[at] = 1\n    if how == 'child':\n        each = [subprocess.Popen([sys.executable, '-c', 'import time\\nx = bytearray(b\"x\" * (60 << 20))\\ntime.sleep(9)']) for _ in range(4)]\n        for one in each: one.wait()\n    return 1\n";
    let code = limited(Language::Python, "memory = '160 MiB'", body);
    assert_eq!(value(&bench.call(&code, r#"{"how": "none"}"#).await), 1);
    let report = bench.call(&code, r#"{"how": "self"}"#).await;
    // the interpreter refuses what the limit does not allow, or the watch kills it: both are an end of the attempt, not of the engine
    let (kind, text) = match &report.outcome {
        viat_runner::script::Outcome::Failed(fault) => (fault.kind, format!("{} {}", fault.code, fault.message)),
        other => panic!("{other:?}"),
    };
    assert!(kind == FaultKind::Exception && text.contains("MemoryError") || kind == FaultKind::ScriptBroken, "{text}");
    let tree = bench.call(&code, r#"{"how": "child"}"#).await;
    let broken = fault(&tree, FaultKind::ScriptBroken);
    assert!(broken.message.contains("160 MiB") || broken.message.contains("SIGKILL"), "{broken}");
    assert_eq!(value(&bench.call(&code, r#"{"how": "none"}"#).await), 1);
}

#[tokio::test]
async fn processor_time_is_limited_for_each_attempt_not_for_the_worker() {
    let bench = Bench::new();
    let body = "import time\ndef main(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n    return 1\n";
    let code = limited(Language::Python, "cpu = '1s'", body);
    // together they use more than the limit of one
    for _ in 0..4 {
        assert_eq!(value(&bench.call(&code, r#"{"s": 0.4}"#).await), 1);
    }
    let report = bench.call(&code, r#"{"s": 30}"#).await;
    let broken = fault(&report, FaultKind::ScriptBroken);
    assert!(broken.message.contains("limits.cpu") && broken.message.contains("1 s"), "{broken}");
    assert_eq!(value(&bench.call(&code, r#"{"s": 0}"#).await), 1);
    let loops = limited(Language::JavaScript, "cpu = '1s'", "export default ({ s }) => { if (s) for (;;); return 1; };\n");
    assert!(fault(&bench.call(&loops, r#"{"s": 1}"#).await, FaultKind::ScriptBroken).message.contains("limits.cpu"));
    let shell = limited(Language::Shell, "cpu = '1s'", "while :; do :; done\n");
    let report = bench.call(&shell, "{}").await;
    assert!(fault(&report, FaultKind::ScriptBroken).message.contains("SIGXCPU"), "{report:?}");
}

#[tokio::test]
async fn open_files_are_limited() {
    let bench = Bench::new();
    let body = "def main(n):\n    return len([open('/dev/null') for _ in range(n)])\n";
    let code = limited(Language::Python, "files = 40", body);
    assert_eq!(value(&bench.call(&code, r#"{"n": 20}"#).await), 20);
    let report = bench.call(&code, r#"{"n": 60}"#).await;
    let refused = fault(&report, FaultKind::Exception);
    assert!(refused.code == "OSError" && refused.message.contains("open files"), "{refused}");
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_attempt() {
    let bench = Bench::new();
    let body = "import os, time\ndef main(n):\n    for _ in range(n):\n        try:\n            if os.fork() == 0:\n                time.sleep(60)\n                os._exit(0)\n        except OSError:\n            raise RuntimeError('no more')\n    time.sleep(3 if n > 8 else 0)\n    return n\n";
    let code = limited(Language::Python, "processes = 8", body);
    assert_eq!(value(&bench.call(&code, r#"{"n": 3}"#).await), 3);
    let report = bench.call(&code, r#"{"n": 60}"#).await;
    match &report.outcome {
        viat_runner::script::Outcome::Failed(fault) if fault.kind == FaultKind::ScriptBroken => assert!(fault.message.contains("limits.processes"), "{fault}"),
        viat_runner::script::Outcome::Failed(fault) => assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::Exception, "no more")),
        other => panic!("{other:?}"),
    }
    until(|| std::fs::read_dir(bench.path("scratch")).is_ok_and(|trees| trees.count() <= 1)).await;
    assert_eq!(value(&bench.call(&code, r#"{"n": 0}"#).await), 0);
}

#[tokio::test]
async fn the_value_is_limited_in_every_language() {
    let bench = Bench::new();
    for (language, body) in [
        (Language::Python, "def main(n):\n    return 'x' * n\n"),
        (Language::JavaScript, "export default ({ n }) => \"x\".repeat(n);\n"),
        (Language::Shell, "head -c \"$VIAT_ARG_N\" /dev/zero | tr '\\0' x\n"),
    ] {
        let code = limited(language, "output = '1 KiB'", body);
        assert_eq!(value(&bench.call(&code, r#"{"n": 1000}"#).await).as_str().unwrap().len(), 1000, "{language:?}");
        let report = bench.call(&code, r#"{"n": 2000}"#).await;
        assert!(fault(&report, FaultKind::InvalidOutput).message.contains("1024"), "{language:?} {report:?}");
    }
}

#[tokio::test]
async fn only_the_variables_that_a_script_names_are_added_to_a_clean_environment() {
    let bench = Bench::new();
    let source = "# /// script\n# [tool.viat]\n# env = ['CARGO_PKG_NAME', 'NOT_THERE']\n# ///\nimport os\ndef main():\n    return sorted(name for name in os.environ if name.startswith('CARGO') or name == 'NOT_THERE')\n";
    let settings = Metadata::of(Language::Python, source).unwrap().settings;
    let code = Arc::new(ScriptCode { settings, ..ScriptCode::new("env", 1, Language::Python, source, source) });
    assert_eq!(value(&bench.call(&code, "{}").await), &serde_json::json!(["CARGO_PKG_NAME"]));
}
