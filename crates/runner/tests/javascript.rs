//! What is JavaScript's own: modules, exits, what is thrown where nobody waits, numbers, inspection.

#![allow(clippy::unwrap_used)]

mod support;

use serde_json::json;
use support::{Bench, fault, script_in, value};
use viat_runner::script::{FaultKind, Language, Node, ParameterKind, inspect_javascript};

fn node() -> Node {
    Node::resolve(&std::env::temp_dir().join("viat-runner-tests"), None).unwrap().unwrap()
}

#[tokio::test]
async fn every_way_to_export_main() {
    let bench = Bench::new();
    for source in [
        "export default function main({ n }) { return n; }",
        "export default ({ n }) => n;",
        "const main = async ({ n }) => n;\nexport { main as default };",
        "export const main = ({ n }) => n;",
        "module.exports = ({ n }) => n;",
        "exports.main = ({ n }) => n;",
        "const os = require('os');\nmodule.exports = { default: ({ n }) => n };",
        "import os from 'node:os';\nawait null;\nexport default ({ n }) => os && n;",
        "import viat, { log, context } from 'viat';\nexport default ({ n }) => { log('x'); return viat.context === context ? n : 0; };",
    ] {
        let report = bench.call(&script_in(Language::JavaScript, source), r#"{"n":7}"#).await;
        assert_eq!(value(&report), &json!(7), "{source}");
    }
}

#[tokio::test]
async fn ends_that_are_no_return() {
    let bench = Bench::new();
    for (source, code) in [
        ("export default () => process.exit(3);", "ProcessExit"),
        ("export default () => { throw 'text'; };", "string"),
        ("export default () => { setTimeout(() => { throw new RangeError('late'); }, 1); return new Promise(() => {}); };", "RangeError"),
        ("export default () => { Promise.reject(new TypeError('lost')); return new Promise((r) => setTimeout(r, 1000)); };", "TypeError"),
        ("throw new SyntaxError('top');", "SyntaxError"),
        ("import 'surely-missing';\nexport default () => 1;", "Error"),
        ("export const x = 1;", "TypeError"),
        ("export default () => { throw new ViatError({ code: '' }); };", "RangeError"),
    ] {
        let script = script_in(Language::JavaScript, source);
        for _ in 0..2 {
            let report = bench.call(&script, "{}").await;
            assert_eq!(fault(&report, FaultKind::Exception).code, code, "{source}");
        }
    }
    let report = bench.call(&script_in(Language::JavaScript, "export default () => {\n  throw new Error('here');\n};"), "{}").await;
    let log = report.log.text();
    assert!(log.contains("sample.mjs:2:9") && !log.contains("[eval]") && !log.contains("scratch"), "{log}");
}

#[tokio::test]
async fn values_that_json_would_change_are_refused() {
    let bench = Bench::new();
    for (expression, said) in [
        ("NaN", "NaN is not a finite number"),
        ("{ a: [1, Infinity] }", "$.a[1]: Infinity"),
        ("10n", "bigint is not a JSON value"),
        ("[undefined]", "undefined is not a JSON value"),
        ("() => 1", "function is not a JSON value"),
        ("new Set([1])", "Set is not a JSON value"),
        ("Buffer.from('x').buffer", "ArrayBuffer is not a JSON value"),
        ("'\\ud800'", "lone surrogate"),
    ] {
        let report = bench.call(&script_in(Language::JavaScript, &format!("export default () => ({expression});")), "{}").await;
        let wrong = fault(&report, FaultKind::InvalidOutput);
        assert!(wrong.message.contains(said), "{expression}: {}", wrong.message);
    }
    let fine = "export default () => ({ a: undefined, at: new Date(0), b: Object.create(null) });";
    assert_eq!(value(&bench.call(&script_in(Language::JavaScript, fine), "{}").await), &json!({"at": "1970-01-01T00:00:00.000Z", "b": {}}));
    let large = script_in(Language::JavaScript, "export default (args) => args;");
    assert_eq!(value(&bench.call(&large, r#"{"n":9007199254740991,"s":"9007199254740993"}"#).await)["n"], json!(9_007_199_254_740_991_i64));
    fault(&bench.call(&large, r#"{"n":9007199254740993}"#).await, FaultKind::Annotation);
}

#[test]
fn a_script_is_read_without_being_run() {
    let read = |source: &str| inspect_javascript(&node(), source, false, None);
    let found = read("process.exit(1);\nexport default async function main({ a, b = 2, ...rest }, viat) {}").unwrap().info;
    let parameters: Vec<_> = found.parameters.iter().map(|one| (one.name.as_str(), one.default.as_deref(), one.kind)).collect();
    assert_eq!(parameters, [("a", None, ParameterKind::Keyword), ("b", Some("2"), ParameterKind::Keyword), ("rest", None, ParameterKind::Rest)]);
    assert!(found.is_async && found.signature_known);
    assert!(!read("module.exports = require('x').main;").unwrap().info.signature_known);
    let wrong = read("export default async function main(args) {\n  return args.;\n}").unwrap_err();
    assert_eq!((wrong.line, wrong.column, wrong.message.as_str()), (2, 15, "Unexpected token"));
    let none = read("export const x = 1;").unwrap_err();
    assert!(none.message.contains("exports no function `main`"), "{none:?}");
}
