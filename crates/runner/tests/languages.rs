//! The contract, the same in every language: value, refusal, exception, death, timeout, cancel, logs, deferred tasks, text.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Bench, fault, read, script_in, until, value};
use viat_runner::script::{FaultKind, Isolation, Language, Outcome, ScriptCode, Settings};

/// How each language does the same thing; the placeholders are filled by the test.
struct Dialect {
    name: &'static str,
    language: Language,
    isolation: Isolation,
    echo: &'static str,
    refuse: &'static str,
    raise: &'static str,
    transient: &'static str,
    die: &'static str,
    hang: &'static str,
    heed: &'static str,
    flood: &'static str,
    huge: &'static str,
    bad: &'static str,
    defer: &'static str,
    progress: &'static str,
    context: &'static str,
    litter: &'static str,
}

const PYTHON: Dialect = Dialect {
    name: "python",
    language: Language::Python,
    isolation: Isolation::Warm,
    echo: "def main(value):\n    return value\n",
    refuse: "import viat\ndef main():\n    raise viat.ViatError(status=409, code='taken', message='é', extra={'by': [1]})\n",
    raise: "def main():\n    raise KeyError('lost')\n",
    transient: "import viat\ndef main():\n    raise viat.TransportError('later', retry_after_ms=1500)\n",
    die: "import os\ndef main():\n    os.kill(os.getpid(), 9)\n",
    hang: "import time\ndef main(file):\n    open(file, 'w').write('up')\n    time.sleep(60)\n",
    heed: "import viat\ndef main(file):\n    open(file, 'w').write('up')\n    viat.cancel_event.wait(60)\n    print('heard')\n",
    flood: "def main():\n    print('first')\n    print('x' * 3000000)\n    print('last')\n    return 1\n",
    huge: "def main(size):\n    return 'y' * size\n",
    bad: "def main():\n    return {'a': {1}}\n",
    defer: "import viat\ndef main():\n    viat.defer('later', {'n': 1})\n    return 'ok'\n",
    progress: "import viat\ndef main():\n    viat.progress(0.5, 'half')\n    return 1\n",
    context: "import viat\ndef main():\n    c = viat.context\n    return [c.run_id, c.path, c.attempt, c.idempotency_key]\n",
    litter: "import os\ndef main():\n    found = os.listdir('.')\n    open('left', 'w').write('x')\n    return found\n",
};

const FRESH_PYTHON: Dialect = Dialect { name: "fresh python", isolation: Isolation::Fresh, ..PYTHON };

const JAVASCRIPT: Dialect = Dialect {
    name: "javascript",
    language: Language::JavaScript,
    isolation: Isolation::Warm,
    echo: "export default async function main({ value }) { return value; }\n",
    refuse: "export default async () => { throw new ViatError({ status: 409, code: 'taken', message: 'é', extra: { by: [1] } }); };\n",
    raise: "class KeyError extends Error { name = 'KeyError'; }\nexport default () => { throw new KeyError('lost'); };\n",
    transient: "import { TransportError } from 'viat';\nexport default () => { throw new TransportError('later', { retryAfterMs: 1500 }); };\n",
    die: "export default () => { process.kill(process.pid, 'SIGKILL'); return new Promise(() => {}); };\n",
    hang: "import fs from 'node:fs';\nexport default ({ file }) => { fs.writeFileSync(file, 'up'); for (;;); };\n",
    heed: "import fs from 'node:fs';\nexport default async ({ file }, viat) => {\n  fs.writeFileSync(file, 'up');\n  await new Promise((done) => viat.signal.addEventListener('abort', done));\n  console.log('heard', viat.cancelled());\n};\n",
    flood: "export default () => { console.log('first'); console.log('x'.repeat(3000000)); console.error('last'); return 1; };\n",
    huge: "export default ({ size }) => 'y'.repeat(size);\n",
    bad: "export default () => ({ a: new Map() });\n",
    defer: "export default async (args, viat) => { await viat.defer('later', { n: 1 }); return 'ok'; };\n",
    progress: "export default (args, viat) => { viat.progress(0.5, 'half'); return 1; };\n",
    context: "export default (args, { context: c }) => [c.run_id, c.path, c.attempt, c.idempotency_key];\n",
    litter: "const fs = require('fs');\nmodule.exports = () => { const found = fs.readdirSync('.'); fs.writeFileSync('left', 'x'); return found; };\n",
};

const FRESH_JAVASCRIPT: Dialect = Dialect { name: "fresh javascript", isolation: Isolation::Fresh, ..JAVASCRIPT };

const SHELL: Dialect = Dialect {
    name: "shell",
    language: Language::Shell,
    isolation: Isolation::Warm,
    echo: "args=$(cat)\nargs=${args#'{\"value\":'}\nprintf '%s\\n' \"${args%'}'}\"\n",
    refuse: "printf '{\"code\":\"taken\",\"status\":409,\"message\":\"é\",\"extra\":{\"by\":[1]}}' > \"$VIAT_ERROR\"\nexit 3\n",
    raise: "echo lost >&2\nexit 3\n",
    transient: "printf '{\"message\":\"later\",\"retry_after_ms\":1500}' > \"$VIAT_ERROR\"\nexit 75\n",
    die: "kill -9 $$\n",
    hang: "printf up > \"$VIAT_ARG_FILE\"\ntrap '' TERM\nwhile :; do sleep 1; done\n",
    heed: "trap 'echo heard; exit 0' TERM\nprintf up > \"$VIAT_ARG_FILE\"\nwhile :; do sleep 0.05; done\n",
    flood: "echo first\nhead -c 3000000 /dev/zero | tr '\\0' x\necho\necho last >&2\necho 1\n",
    huge: "head -c \"$VIAT_ARG_SIZE\" /dev/zero | tr '\\0' y\n",
    bad: "echo '{\"a\": }'\n",
    defer: "echo '{\"workflow\":\"later\",\"args\":{\"n\":1}}' >> \"$VIAT_DEFER\"\necho ok\n",
    progress: "echo '0.5 half' > \"$VIAT_PROGRESS\"\necho 1\n",
    context: "printf '[\"%s\",\"%s\",%s,\"%s\"]\\n' \"$VIAT_RUN_ID\" \"$VIAT_PATH\" \"$VIAT_ATTEMPT\" \"$VIAT_IDEMPOTENCY_KEY\"\n",
    litter: "found=$(ls)\ntouch left\nprintf '[%s]\\n' \"${found:+\\\"$found\\\"}\"\n",
};

const ALL: [&Dialect; 5] = [&PYTHON, &FRESH_PYTHON, &JAVASCRIPT, &FRESH_JAVASCRIPT, &SHELL];

impl Dialect {
    fn code(&self, source: &str) -> Arc<ScriptCode> {
        let code = script_in(self.language, source);
        // the pool of a script is known by its hash: the same text is fresh here and warm there
        Arc::new(ScriptCode {
            hash: format!("{} {source}", self.name),
            settings: Settings { isolation: self.isolation, ..Settings::default() },
            ..(*code).clone()
        })
    }
}

#[tokio::test]
async fn values_and_text_come_back_as_they_went() {
    let bench = Bench::new();
    for each in ALL {
        let echo = each.code(each.echo);
        for sent in
            [json!(null), json!(true), json!(-3), json!(0.1), json!("a b"), json!("ü 漢 🙂 \u{1F9D1}"), json!([1, ["x"]]), json!({"z": 1, "a": {"b": null}})]
        {
            let report = bench.call(&echo, &json!({"value": sent}).to_string()).await;
            assert_eq!(value(&report).to_string(), sent.to_string(), "{}", each.name);
        }
    }
}

#[tokio::test]
async fn refusals_exceptions_and_transient_failures() {
    let bench = Bench::new();
    for each in ALL {
        let report = bench.call(&each.code(each.refuse), "{}").await;
        let refusal = fault(&report, FaultKind::User);
        let said = (refusal.status, refusal.code.as_str(), refusal.message.as_str(), &refusal.extra);
        assert_eq!(said, (Some(409), "taken", "é", &Some(json!({"by": [1]}))), "{}", each.name);
        let report = bench.call(&each.code(each.raise), "{}").await;
        let code = if each.language == Language::Shell { "exit_3" } else { "KeyError" };
        assert_eq!(fault(&report, FaultKind::Exception).code, code, "{}", each.name);
        assert!(report.log.text().contains("lost"), "{}: {}", each.name, report.log.text());
        let report = bench.call(&each.code(each.transient), "{}").await;
        let transient = fault(&report, FaultKind::Transport);
        assert_eq!((transient.message.as_str(), transient.retry_after_ms), ("later", Some(1500)), "{}", each.name);
    }
}

#[tokio::test]
async fn a_death_is_script_broken_and_the_next_attempt_works() {
    let bench = Bench::new();
    for each in ALL {
        let die = each.code(each.die);
        for _ in 0..2 {
            let report = bench.call(&die, "{}").await;
            let broken = fault(&report, FaultKind::ScriptBroken);
            assert!(broken.message.contains("killed by signal 9 (SIGKILL)"), "{}: {}", each.name, broken.message);
        }
    }
}

#[tokio::test]
async fn a_timeout_ends_what_does_not_end_itself() {
    let bench = Bench::new();
    for (number, each) in ALL.iter().enumerate() {
        let file = bench.path(&format!("up{number}"));
        let args = json!({"file": file}).to_string();
        // the limit leaves room for the start of the script on a slow machine
        let report = bench.call_within(&each.code(each.hang), &args, Some(Duration::from_secs(2))).await;
        fault(&report, FaultKind::Timeout);
        assert_eq!(read(&file), "up", "{}", each.name);
        let report = bench.call(&each.code(each.echo), r#"{"value":1}"#).await;
        assert_eq!(value(&report), &json!(1), "{}", each.name);
    }
}

#[tokio::test]
async fn a_cancel_is_heard() {
    let bench = Bench::new();
    for (number, each) in ALL.iter().enumerate() {
        let file = bench.path(&format!("heed{number}"));
        let args = json!({"file": file}).to_string();
        let report = bench.call_stopped(&each.code(each.heed), &args, Duration::from_secs(20), || read(&file) == "up").await;
        assert_eq!(report.outcome, Outcome::Stopped, "{}", each.name);
        assert!(report.log.text().contains("heard"), "{}: {}", each.name, report.log.text());
    }
}

#[tokio::test]
async fn a_flood_in_the_log_keeps_head_and_tail_and_harms_nothing() {
    let bench = Bench::new();
    for each in ALL {
        let report = bench.call(&each.code(each.flood), "{}").await;
        assert_eq!(value(&report), &json!(1), "{}", each.name);
        let text = report.log.text();
        assert!(
            text.starts_with("first") && text.contains("bytes cut here") && text.contains("last"),
            "{}: {}…{}",
            each.name,
            &text[..40],
            &text[text.len() - 40..]
        );
        assert!(report.log.total > 3_000_000 && report.log.bytes.len() < 1_100_000, "{}", each.name);
    }
}

#[tokio::test]
async fn values_have_a_limit_and_must_be_json() {
    let bench = Bench::with(|config| config.value_limit = 100_000);
    for each in ALL {
        let huge = each.code(each.huge);
        let report = bench.call(&huge, r#"{"size":90000}"#).await;
        assert_eq!(value(&report).as_str().unwrap().len(), 90_000, "{}", each.name);
        let report = bench.call(&huge, r#"{"size":200000}"#).await;
        let wrong = fault(&report, FaultKind::InvalidOutput);
        assert!(wrong.message.contains("limit of 100000"), "{}: {}", each.name, wrong.message);
        fault(&bench.call(&each.code(each.bad), "{}").await, FaultKind::InvalidOutput);
    }
}

#[tokio::test]
async fn a_shell_attempt_begins_in_a_folder_of_its_own() {
    let bench = Bench::new();
    let code = script_in(Language::Shell, "ls -A\necho x > left\nls -A | tail -1\n");
    for _ in 0..3 {
        let report = bench.call(&code, "{}").await;
        assert_eq!((value(&report), report.log.text().as_str()), (&json!("left"), "left\n"));
    }
}

#[tokio::test]
async fn tasks_are_deferred_and_progress_is_heard() {
    let bench = Bench::new();
    for each in ALL {
        let (report, heard) = bench.call_heard(&each.code(each.defer), "{}", |_, _| Ok(Value::Null)).await;
        assert_eq!((value(&report), heard.join("")), (&json!("ok"), r#"defer later {"n":1}"#.to_owned()), "{}", each.name);
        let (report, _) = bench.call_heard(&each.code(each.defer), "{}", |_, _| Err("not published".into())).await;
        assert!(fault(&report, FaultKind::Resource).message.contains("not published"), "{}", each.name);
        let (_, heard) = bench.call_heard(&each.code(each.progress), "{}", |_, _| Ok(Value::Null)).await;
        assert_eq!(heard, [r#"progress Some(0.5) Some("half")"#], "{}", each.name);
    }
}

#[tokio::test]
async fn the_context_is_there_and_nothing_is_left_between_attempts() {
    let bench = Bench::new();
    for each in ALL {
        let report = bench.call(&each.code(each.context), "{}").await;
        assert_eq!(value(&report), &json!(["run-1", "a[0]", 2, "key"]), "{}", each.name);
        let litter = each.code(each.litter);
        for _ in 0..3 {
            assert_eq!(value(&bench.call(&litter, "{}").await), &json!([]), "{}", each.name);
        }
    }
}

#[tokio::test]
async fn a_fresh_process_keeps_nothing_and_a_warm_one_does() {
    let bench = Bench::new();
    let count = "n = 0\ndef main():\n    global n\n    n += 1\n    return n\n";
    let counting = "let n = 0;\nexport default () => ++n;\n";
    for (each, source, expected) in
        [(&PYTHON, count, [1, 2, 3]), (&FRESH_PYTHON, count, [1, 1, 1]), (&JAVASCRIPT, counting, [1, 2, 3]), (&FRESH_JAVASCRIPT, counting, [1, 1, 1])]
    {
        let code = each.code(source);
        for number in expected {
            assert_eq!(value(&bench.call(&code, "{}").await), &json!(number), "{}", each.name);
        }
    }
}

#[tokio::test]
async fn many_calls_leave_nothing_behind() {
    let bench = Bench::new();
    for each in ALL {
        let echo = each.code(each.echo);
        let worker = || bench.pools.try_reserve(&echo).map(|reservation| reservation.tree().guardian);
        let calls = if each.isolation == Isolation::Fresh && each.language == Language::JavaScript { 30 } else { 300 };
        let call = |n: usize| json!({"value": "x".repeat(n % 5000)}).to_string();
        value(&bench.call(&echo, &call(0)).await);
        let opened = worker().map(descriptors);
        for n in 0..calls {
            value(&bench.call(&echo, &call(n)).await);
        }
        if calls == 300 {
            assert!(opened.is_some(), "{}: the worker is kept", each.name);
            assert_eq!(worker().map(descriptors), opened, "{}: descriptors of the worker", each.name);
        }
    }
    bench.pools.shutdown().await;
    until(|| std::fs::read_dir(bench.path("scratch")).is_ok_and(|mut entries| entries.next().is_none())).await;
}

/// How many files the guardian's child has open.
fn descriptors(guardian: u32) -> usize {
    let children = read(format!("/proc/{guardian}/task/{guardian}/children").as_ref());
    let worker = children.split_ascii_whitespace().next().unwrap_or_default().to_owned();
    std::fs::read_dir(format!("/proc/{worker}/fd")).map_or(0, Iterator::count)
}
