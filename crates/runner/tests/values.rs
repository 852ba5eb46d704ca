//! What goes in and comes out: arguments, annotations, return values, context, notices.

mod support;

use serde_json::{Value, json};
use support::{Bench, call, fault, script, value};
use viat_runner::script::FaultKind;

#[tokio::test]
async fn values_pass_unchanged() {
    let bench = Bench::new();
    let code = script("def main(v):\n    return v\n");
    for text in [
        "null",
        "true",
        "0",
        "-9223372036854775808",
        "9223372036854775807",
        "9007199254740993",
        "2.0",
        "-0.0",
        "0.1",
        "1e-320",
        "123456789.12345679",
        "5e-324",
        "1.7976931348623157e308",
        r#""""#,
        r#""ünï 漢字 😀 \u0000 \n \\ \"""#,
        r#"{"z":1,"a":{"y":[1,2.5,null,false,"x"]},"":{}}"#,
        "[[[]]]",
    ] {
        let report = bench.call(&code, &format!(r#"{{"v":{text}}}"#)).await;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(value(&report).to_string(), expected.to_string());
        assert_eq!(report.log.total, 0);
    }
    let deep = format!("{}{}", "[".repeat(99), "]".repeat(99));
    assert_eq!(value(&bench.call(&code, &format!(r#"{{"v":{deep}}}"#)).await).to_string(), deep);
}

#[tokio::test]
async fn python_values_that_are_json_are_returned() {
    let bench = Bench::new();
    let source = r#"
import collections, enum
class Colour(str, enum.Enum):
    RED = "red"
class Level(enum.IntEnum):
    HIGH = 3
def main(which):
    return eval(which)
"#;
    let code = script(source);
    for (which, expected) in [
        ("(1, 2)", json!([1, 2])),
        ("collections.OrderedDict(b=1, a=2)", json!({"b": 1, "a": 2})),
        ("Colour.RED", json!("red")),
        ("Level.HIGH", json!(3)),
        ("collections.Counter('aab')", json!({"a": 2, "b": 1})),
        ("None", Value::Null),
        ("1e400 if False else 2.0", json!(2.0)),
    ] {
        let report = bench.call(&code, &json!({ "which": which }).to_string()).await;
        assert_eq!(value(&report).to_string(), expected.to_string(), "{which}");
    }
}

#[tokio::test]
async fn what_is_not_json_is_refused_with_its_path() {
    let bench = Bench::with(|config| config.value_limit = 10_000);
    let code = script("import datetime, decimal\nloop = []\nloop.append(loop)\ndef main(which):\n    return eval(which)\n");
    for (which, said) in [
        ("float('nan')", "$: nan is not a finite number"),
        ("[1, {'a': float('-inf')}]", "$[1].a: -inf"),
        ("{1, 2}", "$: set is not a JSON value"),
        ("object()", "$: object is not"),
        ("10**30", "$: an integer outside the 64-bit range"),
        ("2**63", "64-bit"),
        ("b'x'", "bytes"),
        ("{'a': [0, 1, 2, {'b c': 1j}]}", "$.a[3]['b c']: complex is not"),
        ("{1: 2}", "$: a key must be a string, not 1 (int)"),
        ("{'x': {None: 2}}", "$.x: a key must be a string, not None"),
        ("datetime.date(2020, 1, 1)", "date is not"),
        ("decimal.Decimal('1.5')", "Decimal is not"),
        ("['ok', '\\ud800']", "$[1]: a string holds a lone surrogate"),
        ("{'\\ud800': 1}", "surrogate"),
        ("loop", "nested deeper than 100"),
        ("'x' * 20000", "20002 bytes as JSON, more than the limit of 10000"),
        ("(n for n in [])", "generator is not"),
    ] {
        let report = bench.call(&code, &json!({ "which": which }).to_string()).await;
        let fault = fault(&report, FaultKind::InvalidOutput);
        assert!(fault.message.contains(said), "{which}: {}", fault.message);
        assert_eq!(fault.code, "invalid_output");
    }
    assert_eq!(bench.pools.status()[0].idle, 1, "the worker is still good");
}

#[tokio::test]
async fn annotations_are_enforced() {
    let bench = Bench::new();
    let source = r#"
import dataclasses, datetime, enum
from typing import Any, Literal, NotRequired, Optional, TypedDict, Union
class Colour(enum.Enum):
    RED = "red"
    ONE = 1
@dataclasses.dataclass
class Point:
    x: int
    y: "int" = 0
    next: "Optional[Point]" = None
class Row(TypedDict):
    id: int
    tags: NotRequired[list[str]]
def main(n: int = 0, f: float = 0.0, s: str = "", b: bool = False, none: None = None, xs: list[int] = [], any: Any = 0,
         d: dict[str, list[int]] = {}, o: Optional[int] = None, u: Union[int, str] = 0, p: int | None = None,
         lit: Literal["a", 1] = None, c: Colour = None, pt: Point = None, row: Row = None, bare: list = [],
         when: datetime.datetime = None, day: datetime.date = None, pair: tuple[int, str] = None, many: tuple[int, ...] = (), **rest: str):
    return repr([v for v in (n, f, s, b, none, xs, any, d, o, u, p, lit, c, pt, row, bare, when, day, pair, many, rest) if v][-1:])
"#;
    let code = script(source);
    for (args, expected) in [
        (json!({"n": 3}), "3"),
        (json!({"f": 3}), "3"),
        (json!({"f": 2.5}), "2.5"),
        (json!({"c": "red"}), "<Colour.RED: 'red'>"),
        (json!({"c": 1}), "<Colour.ONE: 1>"),
        (json!({"pt": {"x": 1, "next": {"x": 2}}}), "Point(x=1, y=0, next=Point(x=2, y=0, next=None))"),
        (json!({"row": {"id": 1, "tags": ["a"]}}), "{'id': 1, 'tags': ['a']}"),
        (json!({"when": "2024-05-06T07:08:09Z"}), "datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc)"),
        (json!({"day": "2024-05-06"}), "datetime.date(2024, 5, 6)"),
        (json!({"pair": [1, "a"]}), "(1, 'a')"),
        (json!({"many": [1, 2]}), "(1, 2)"),
        (json!({"other": "x"}), "{'other': 'x'}"),
        (json!({"u": "x", "o": null, "p": null, "any": [1], "bare": [1, "a"]}), "[1, 'a']"),
    ] {
        let report = bench.call(&code, &args.to_string()).await;
        assert!(value(&report).as_str().unwrap().contains(expected), "{args}: {}", value(&report));
    }
    for (args, said) in [
        (json!({"n": "3"}), "`n`: expected int, got str '3'"),
        (json!({"n": true}), "`n`: expected int, got bool True"),
        (json!({"n": 2.5}), "got float 2.5"),
        (json!({"n": null}), "got null"),
        (json!({"f": "1"}), "`f`: expected float"),
        (json!({"b": 1}), "`b`: expected bool"),
        (json!({"s": 1}), "`s`: expected str"),
        (json!({"none": 0}), "`none`: expected None"),
        (json!({"xs": [1, "2"]}), "`xs[1]`: expected int, got str '2'"),
        (json!({"d": {"k": [1, null]}}), "`d.k[1]`: expected int"),
        (json!({"u": 1.5}), "expected Union[int, str]"),
        (json!({"lit": true}), "expected one of 'a', 1"),
        (json!({"c": "blue"}), "Colour"),
        (json!({"c": true}), "Colour"),
        (json!({"pt": {"y": 1}}), "Point needs the field `x`"),
        (json!({"pt": {"x": 1, "z": 1}}), "has no field `z`"),
        (json!({"pt": {"x": "1"}}), "`pt.x`: expected int"),
        (json!({"row": {"id": "1"}}), "`row.id`"),
        (json!({"when": "yesterday"}), "ISO 8601"),
        (json!({"pair": [1]}), "tuple of 2"),
        (json!({"other": 1}), "`other`: expected str"),
    ] {
        let report = bench.call(&code, &args.to_string()).await;
        let fault = fault(&report, FaultKind::Annotation);
        assert!(fault.message.contains(said), "{args}: {}", fault.message);
    }
}

#[tokio::test]
async fn arguments_bind_by_keyword() {
    let bench = Bench::new();
    for (source, args, said) in [
        ("def main(a, b=1): pass", json!({}), "main needs the argument `a`"),
        ("def main(a, b=1): pass", json!({"a": 1, "c": 1}), "main has no parameter `c`; its parameters: a, b"),
        ("def main(): pass", json!({"c": 1}), "main has no parameter `c`; its parameters: none"),
        ("def main(a, /): pass", json!({"a": 1}), "positional-only"),
        ("def main(*, k): pass", json!({}), "needs the argument `k`"),
        ("def main(x: 'Missing'): pass", json!({"x": 1}), "cannot be resolved"),
    ] {
        let report = bench.call(&script(source), &args.to_string()).await;
        assert!(fault(&report, FaultKind::Annotation).message.contains(said), "{:?}", report.outcome);
    }
    let wrapped = "import functools\ndef wrap(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n        return [f(*a, **k)]\n    return inner\n@wrap\ndef main(n: int):\n    return n\n";
    assert_eq!(value(&bench.call(&script(wrapped), r#"{"n":1}"#).await), &json!([1]));
    fault(&bench.call(&script(wrapped), r#"{"n":"1"}"#).await, FaultKind::Annotation);
    let future = "from __future__ import annotations\ndef main(n: int | None, *args, **rest):\n    return [n, rest]\n";
    assert_eq!(value(&bench.call(&script(future), r#"{"n":1,"z":2}"#).await), &json!([1, {"z": 2}]));
    fault(&bench.call(&script(future), r#"{"n":"1"}"#).await, FaultKind::Annotation);
}

#[tokio::test]
async fn pydantic_models_are_built_where_pydantic_is_installed() {
    let bench = Bench::new();
    let source = "try:\n    from pydantic import BaseModel\n    class M(BaseModel):\n        n: int\nexcept ImportError:\n    class M: pass\ndef main(m: M):\n    return m.n\n";
    let report = bench.call(&script(source), r#"{"m":{"n":"x"}}"#).await;
    fault(&report, FaultKind::Annotation);
}

#[tokio::test]
async fn site_packages_are_found_when_an_import_misses() {
    let bench = Bench::new();
    let source = r#"
import sys
def main():
    before = len(sys.path)
    try:
        import surely_missing
    except ModuleNotFoundError as missing:
        assert missing.name == "surely_missing", missing
    else:
        assert False
    import site, os
    expected = [p for p in site.getsitepackages() if os.path.isdir(p)]
    return [p in sys.path for p in expected] + [len(sys.meta_path)]
"#;
    let report = bench.call(&script(source), "{}").await;
    assert!(value(&report).as_array().unwrap().iter().all(|each| each != false), "{:?}", report.outcome);
    let by_name = script(
        "import importlib.metadata, importlib.util\nfrom viat import cancel_event, cancelled\ndef main():\n    return [cancel_event.is_set(), cancelled(), importlib.util.find_spec('surely_missing')]\n",
    );
    assert_eq!(value(&bench.call(&by_name, "{}").await), &json!([false, false, null]));
    let twice = "import dataclasses, typing\n@dataclasses.dataclass\nclass P:\n    x: 'int'\ndef main(p: P):\n    return dataclasses.asdict(p)\n";
    assert_eq!(value(&bench.call(&script(twice), r#"{"p":{"x":1}}"#).await), &json!({"x": 1}));
}

#[tokio::test]
async fn async_main_is_awaited() {
    let bench = Bench::new();
    let code = script("import asyncio\nasync def main(n):\n    await asyncio.sleep(0)\n    return n + 1\n");
    for n in 0..3 {
        assert_eq!(value(&bench.call(&code, &json!({ "n": n }).to_string()).await), &json!(n + 1));
    }
    let failing = script("async def main():\n    raise KeyError('k')\n");
    let report = bench.call(&failing, "{}").await;
    assert_eq!(fault(&report, FaultKind::Exception).code, "KeyError");
    assert!(report.log.text().contains("sample.py\", line 2") && !report.log.text().contains("<viat"), "{}", report.log.text());
}

#[tokio::test]
async fn context_shows_the_attempt() {
    let bench = Bench::new();
    let code = script(
        "from viat import context\nimport viat\ndef main():\n    assert viat.context is context\n    return [context.run_id, context.workflow, context.version, context.step, context.path, context.attempt, context.idempotency_key, context.deadline, context.traceparent]\n",
    );
    let report = bench.call(&code, "{}").await;
    assert_eq!(value(&report), &json!(["run-1", "w", 3, "a", "a[0]", 2, "key", null, null]));
}

#[tokio::test]
async fn scripts_see_a_clean_environment_and_a_folder_of_their_own() {
    let bench = Bench::with(|config| config.env_allow = vec!["CARGO_PKG_NAME".into()]);
    let code = script(
        "import os, sys\ndef main():\n    open('here', 'w').close()\n    return [sorted(k for k in os.environ if not k.startswith('LC_')), os.getcwd(), sys.argv, __name__, os.environ.get('CARGO_PKG_NAME')]\n",
    );
    let report = bench.call(&code, "{}").await;
    let got = value(&report);
    let allowed = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIAT_TREE", "CARGO_PKG_NAME"];
    assert!(got[0].as_array().unwrap().iter().all(|name| allowed.contains(&name.as_str().unwrap())), "{got}");
    assert!(got[1].as_str().unwrap().starts_with(bench.path("scratch").to_str().unwrap()));
    assert_eq!((&got[2], &got[3], &got[4]), (&json!(["sample.py"]), &json!("sample"), &json!("viat-runner")));
    bench.pools.shutdown().await;
    assert_eq!(std::fs::read_dir(bench.path("scratch")).unwrap().count(), 0);
}

#[tokio::test]
async fn notices_reach_the_engine_and_its_answers_the_script() {
    let bench = Bench::new();
    let source = r#"
import viat
def main(name):
    viat.progress(0.5, "half")
    viat.defer(name, {"n": 1.0, "z": [None]})
    try:
        viat.defer("missing", {})
    except viat.ResourceError as refused:
        viat.log("refused:", refused)
    for n in range(1000):
        viat.progress(n / 1000)
    viat.progress(1, "done")
    return viat.resource("db", kind="postgres")["url"]
"#;
    let answer = |name: &str, _: &Value| if name == "missing" { Err("no workflow missing".to_string()) } else { Ok(json!({"url": "u"})) };
    let (report, heard) = bench.call_heard(&script(source), r#"{"name":"child"}"#, answer).await;
    assert_eq!(value(&report), &json!("u"));
    assert_eq!(report.log.text(), "refused: no workflow missing\n");
    assert_eq!(heard[0], r#"progress Some(0.5) Some("half")"#);
    assert_eq!(heard[1], r#"defer child {"n":1.0,"z":[null]}"#);
    assert_eq!(heard.last().unwrap(), r#"progress Some(1.0) Some("done")"#);
    assert!(heard.len() < 100, "a flood of progress is thinned out");
    let refusing = script("import viat\ndef main():\n    viat.resource('db')\n");
    let (report, _) = bench.call_heard(&refusing, "{}", |_, _| Err("no resource db".to_string())).await;
    assert_eq!(fault(&report, FaultKind::Resource).message, "no resource db");
    for (line, said) in [
        ("viat.defer('w', {1: 2})", "a key must be a string"),
        ("viat.defer('', {})", "must be a name"),
        ("viat.defer('w', [1])", "must be a dict"),
        ("viat.progress(2)", "from 0 to 1"),
    ] {
        let report = bench.call(&script(&format!("import viat\ndef main():\n    {line}\n")), "{}").await;
        assert!(fault(&report, FaultKind::Exception).message.contains(said), "{:?}", report.outcome);
    }
}

#[tokio::test]
async fn nobody_listening_refuses_instead_of_hanging() {
    let bench = Bench::new();
    let worker = bench.pools.reserve(script("import viat\ndef main():\n    viat.defer('w')\n")).await.unwrap();
    let (notices, said) = tokio::sync::mpsc::unbounded_channel();
    drop(said);
    let (_keep, stop) = tokio::sync::oneshot::channel();
    let report = worker.run(call("{}", None), stop, notices).await;
    fault(&report, FaultKind::Resource);
}

#[tokio::test]
async fn big_arguments_and_values_pass() {
    let bench = Bench::new();
    let code = script("def main(v):\n    return v + v\n");
    let report = bench.call(&code, &json!({"v": "x".repeat(5_000_000)}).to_string()).await;
    assert_eq!(value(&report).as_str().unwrap().len(), 10_000_000);
}
