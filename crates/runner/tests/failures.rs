//! Every way an attempt fails, each by its real cause, and what the log keeps of it.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use serde_json::json;
use support::{Bench, fault, script, value};
use viat_runner::script::{FaultKind, Interpreter};

#[tokio::test]
async fn a_refusal_keeps_status_code_message_and_extra() {
    let bench = Bench::new();
    let code = script(
        "from viat import ViatError\ndef main():\n    raise ViatError(status=409, code='conflict', message='m ü', extra={'n': 2.0, 'z': [1], 'a': None})\n",
    );
    let report = bench.call(&code, "{}").await;
    let refusal = fault(&report, FaultKind::User);
    assert_eq!((refusal.status, refusal.code.as_str(), refusal.message.as_str()), (Some(409), "conflict", "m ü"));
    assert_eq!(refusal.extra.as_ref().unwrap().to_string(), r#"{"n":2.0,"z":[1],"a":null}"#);
    assert_eq!(report.log.total, 0, "a refusal is no accident: no traceback");
    let code = script("from viat import ViatError\ndef main():\n    raise ViatError(code='no', message='m')\n");
    let report = bench.call(&code, "{}").await;
    assert_eq!((fault(&report, FaultKind::User).status, &fault(&report, FaultKind::User).extra), (Some(400), &None));
}

#[tokio::test]
async fn a_bad_refusal_is_an_exception() {
    let bench = Bench::new();
    for (arguments, name) in [
        ("status=399, code='x'", "ValueError"),
        ("status=600, code='x'", "ValueError"),
        ("status='409', code='x'", "TypeError"),
        ("status=True, code='x'", "TypeError"),
        ("code=''", "ValueError"),
        ("status=400", "TypeError"),
        ("code=5", "TypeError"),
        ("code='x', message=5", "TypeError"),
        ("code='x', extra={1: 2}", "TypeError"),
        ("code='x', extra=object()", "TypeError"),
    ] {
        let report = bench.call(&script(&format!("from viat import ViatError\ndef main():\n    raise ViatError({arguments})\n")), "{}").await;
        assert_eq!(fault(&report, FaultKind::Exception).code, name, "{arguments}");
    }
}

#[tokio::test]
async fn the_script_may_call_a_failure_transient() {
    let bench = Bench::new();
    let code = script("from viat import TransportError\ndef main():\n    raise TransportError('reset', retry_after_ms=1500)\n");
    let report = bench.call(&code, "{}").await;
    let transient = fault(&report, FaultKind::Transport);
    assert_eq!((transient.message.as_str(), transient.retry_after_ms), ("reset", Some(1500)));
    let plain = bench.call(&script("import viat\ndef main():\n    raise viat.TransportError('reset')\n"), "{}").await;
    assert_eq!(fault(&plain, FaultKind::Transport).retry_after_ms, None);
}

#[tokio::test]
async fn exceptions_keep_type_and_message_and_leave_the_traceback_in_the_log() {
    let bench = Bench::new();
    let code = script("def inner():\n    raise ConnectionError('looks like the network')\ndef main():\n    inner()\n");
    let report = bench.call(&code, "{}").await;
    let failure = fault(&report, FaultKind::Exception);
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("ConnectionError", "looks like the network"));
    let log = report.log.text();
    assert!(log.contains("sample.py\", line 2, in inner") && log.contains("raise ConnectionError('looks"), "{log}");
    assert!(!log.contains("<viat") && !log.contains("<string>"), "{log}");
    for (body, name) in [
        ("import sys; sys.exit(3)", "SystemExit"),
        ("exit()", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise MemoryError", "MemoryError"),
        ("main()", "RecursionError"),
        ("raise type('Odd', (Exception,), {'__str__': lambda self: 1/0})", "Odd"),
        ("raise Exception('\\ud800')", "Exception"),
        ("raise Exception('x' * 10**6)", "Exception"),
        ("import os; os.kill(os.getpid(), 2); import time; time.sleep(5)", "KeyboardInterrupt"),
    ] {
        let report = bench.call(&script(&format!("def main():\n    {body}\n")), "{}").await;
        let failure = fault(&report, FaultKind::Exception);
        assert_eq!(failure.code, name, "{body}");
        assert!(failure.message.len() < 20_000);
    }
}

#[tokio::test]
async fn a_script_that_cannot_be_loaded_says_so_on_each_attempt() {
    let bench = Bench::new();
    for (source, name) in [
        ("print('loading')\n1/0\ndef main(): pass", "ZeroDivisionError"),
        ("def main(:\n", "SyntaxError"),
        ("x = 1", "TypeError"),
        ("import surely_missing\ndef main(): pass", "ModuleNotFoundError"),
        ("import sys\nsys.exit(1)\n", "SystemExit"),
    ] {
        let code = script(source);
        for _ in 0..2 {
            let report = bench.call(&code, "{}").await;
            assert_eq!(fault(&report, FaultKind::Exception).code, name);
            assert!(report.log.text().contains(name), "{}", report.log.text());
        }
    }
    let once = bench.path("once");
    let code =
        script(&format!("import os\nif not os.path.exists({once:?}):\n    open({once:?}, 'w')\n    raise OSError('not yet')\ndef main():\n    return 1\n"));
    fault(&bench.call(&code, "{}").await, FaultKind::Exception);
    assert_eq!(value(&bench.call(&code, "{}").await), &json!(1), "the next attempt loads the script anew");
}

#[tokio::test]
async fn a_worker_that_dies_or_breaks_the_protocol_is_script_broken() {
    let bench = Bench::new();
    for (body, said) in [
        ("os._exit(9)", "exited with code 9"),
        ("os._exit(0)", "exited with code 0"),
        ("os.kill(os.getpid(), 9)", "killed by signal 9 (SIGKILL)"),
        ("os.kill(os.getpid(), 11)", "killed by signal 11 (SIGSEGV)"),
        ("os.abort()", "killed by signal 6 (SIGABRT)"),
        ("os.killpg(0, 15)", "signal 15"),
        ("os.kill(os.getppid(), 9); time.sleep(30)", "guardian was killed"),
        ("os.closerange(3, 1000); time.sleep(30)", "closed its channel"),
        ("os.closerange(3, 1000)", "the worker"),
        ("[os.write(fd, b'garbage') for fd in sockets()]; time.sleep(30)", "broke the protocol"),
        ("[os.write(fd, b'\\x03\\0\\0\\0r{]') for fd in sockets()]; time.sleep(30)", "broke the protocol"),
        ("os.execv('/bin/sh', ['sh', '-c', 'exit 3'])", "exited with code 3"),
    ] {
        let source = format!(
            "import os, stat, time\ndef sockets():\n    return [fd for fd in range(3, 200) if os.path.exists(f'/proc/self/fd/{{fd}}') and stat.S_ISSOCK(os.fstat(fd).st_mode)]\ndef main():\n    print('before')\n    {body}\n    return 1\n"
        );
        let report = bench.call(&script(&source), "{}").await;
        let broken = fault(&report, FaultKind::ScriptBroken);
        assert!(broken.message.contains(said), "{body}: {}", broken.message);
        assert_eq!((broken.code.as_str(), report.log.text().as_str()), ("script_broken", "before\n"), "{body}");
    }
}

#[tokio::test]
async fn a_fork_that_comes_back_does_not_speak_for_its_parent() {
    let bench = Bench::new();
    let code = script("import os\ndef main():\n    pid = os.fork()\n    if pid:\n        os.waitpid(pid, 0)\n        return 'parent'\n    return 'child'\n");
    for _ in 0..3 {
        assert_eq!(value(&bench.call(&code, "{}").await), &json!("parent"));
    }
    let raising = script(
        "import os, viat\ndef main():\n    pid = os.fork()\n    if pid:\n        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])\n    viat.defer('w')\n",
    );
    let report = bench.call(&raising, "{}").await;
    assert_eq!(value(&report), &json!(1));
    assert!(report.log.text().contains("not in a fork of it"));
}

#[tokio::test]
async fn everything_written_is_the_attempts_log() {
    let bench = Bench::new();
    let source = r#"
import os, subprocess, sys, viat
print("top level")
def main(n):
    print("out", n, end="")
    sys.stderr.write("err\n")
    os.write(1, b"raw \xff\xfe\n")
    os.write(2, b"\x00")
    subprocess.run(["echo", "child"])
    viat.log("logged", n)
    print("lone \ud800")
    return n
"#;
    let code = script(source);
    let first = bench.call(&code, r#"{"n":1}"#).await;
    assert!(first.log.text().starts_with("top level\n"));
    let second = bench.call(&code, r#"{"n":2}"#).await;
    let text = second.log.text();
    assert!(!text.contains("top level") && !text.contains("out 1"), "{text}");
    for part in ["out 2", "err\n", "raw ", "\0", "child\n", "logged 2\n", "lone \\ud800"] {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
    assert!(second.log.bytes.windows(2).any(|pair| pair == b"\xff\xfe"), "bytes are kept as they are");
}

#[tokio::test]
async fn a_hundred_megabytes_of_output_cost_one_megabyte() {
    let bench = Bench::new();
    let code = script(
        "import sys\ndef main():\n    print('first line')\n    for n in range(100):\n        sys.stdout.write('x' * (1 << 20))\n    print('\\nlast line')\n    return 'fine'\n",
    );
    let before = resident_kib();
    let report = bench.call(&code, "{}").await;
    assert_eq!(value(&report), &json!("fine"));
    assert!(report.log.total > 100 << 20 && report.log.bytes.len() < (1 << 20) + 100);
    let text = report.log.text();
    assert!(text.starts_with("first line\n") && text.ends_with("\nlast line\n") && text.contains("bytes cut here]"));
    assert!(resident_kib() < before + 30_000);
}

fn resident_kib() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn closed_streams_and_stray_threads_do_no_harm() {
    let bench = Bench::new();
    let closing = script("import os, sys\ndef main(n):\n    if n == 0:\n        sys.stdout.close(); os.close(2)\n    return n\n");
    for n in 0..3 {
        assert_eq!(value(&bench.call(&closing, &json!({ "n": n }).to_string()).await), &json!(n));
    }
    let threads = script(
        "import threading, time\ndef main(n):\n    print('own', n)\n    threading.Thread(target=lambda: (time.sleep(0.05), print('stray')), daemon=True).start()\n    return n\n",
    );
    for n in 0..5 {
        let report = bench.call(&threads, &json!({ "n": n }).to_string()).await;
        assert_eq!(report.log.text(), format!("own {n}\n"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_pool_that_cannot_start_workers_says_why() {
    let missing = Bench::with(|config| config.interpreter = Some(Interpreter::at("/nowhere/python3")));
    let code = script("def main(): pass");
    let (one, two) = tokio::join!(missing.pools.reserve(code.clone()), missing.pools.reserve(code.clone()));
    for outcome in [one, two] {
        let fault = outcome.unwrap_err();
        assert_eq!(fault.kind, FaultKind::PoolSpawnFailed);
        assert!(fault.message.contains("/nowhere/python3"), "{}", fault.message);
    }
    let no_guardian = Bench::with(|config| config.guardian = vec!["/nowhere/viat".into()]);
    let fault = no_guardian.pools.reserve(code.clone()).await.unwrap_err();
    assert!(fault.kind == FaultKind::PoolSpawnFailed && fault.message.contains("/nowhere/viat"), "{}", fault.message);
    let no_python = Bench::with(|config| config.interpreter = Some(Interpreter::at("/bin/false")));
    let fault = no_python.pools.reserve(code.clone()).await.unwrap_err();
    assert!(fault.message.contains("exited with code 1"), "{}", fault.message);
    let slow = Bench::with(|config| config.spawn_limit = Duration::from_millis(500));
    let fault = slow.pools.reserve(script("import time\ntime.sleep(60)\ndef main(): pass")).await.unwrap_err();
    assert!(fault.kind == FaultKind::PoolSpawnFailed && fault.message.contains("not ready within"), "{}", fault.message);
    let dying = Bench::new();
    let fault = dying.pools.reserve(script("import os\nprint('last words')\nos._exit(4)")).await.unwrap_err();
    assert!(fault.message.contains("exited with code 4") && fault.message.contains("last words"), "{}", fault.message);
    for bench in [missing, no_guardian, no_python, slow, dying] {
        assert!(bench.pools.status().iter().all(|pool| pool.starting + pool.busy + pool.idle + pool.waiting == 0));
    }
}
