//! The expression language by example: values, errors, order, budgets.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the tests measure time; the crate does not")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use viat_dialect::Languages;
use viat_engine::expression::{Evaluate, Scope};
use viat_engine::ir::Expression;

struct Names(BTreeMap<String, Value>);

impl Scope for Names {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

fn scope() -> Names {
    let inputs = json!({
        "n": 5, "f": 2.5, "s": "héllo", "t": true, "z": null, "big": 9_007_199_254_740_993_i64, "in": 1,
        "o": {"present": 1, "b": {"c": "deep"}}, "xs": [1, 2, 3], "mixed": [1, 2.0, "3", null, [1], {"k": 1}],
        "keys": {"z": 1, "a": 2, "m": 3}, "rows": [{"name": "x", "n": 2}, {"name": "y", "n": 3}],
    });
    Names([("inputs".to_owned(), inputs), ("a".to_owned(), json!({"output": {"items": [{"name": "x", "n": 2}], "odd key": 7}}))].into())
}

fn evaluate(text: &str) -> Result<Value, String> {
    Languages::new().evaluate(&Expression { language: "cel".into(), text: text.into() }, &scope())
}

#[test]
fn values() {
    for (text, wanted) in [
        ("1 + 2 * 3", json!(7)),
        ("7 / 2", json!(3)),
        ("-7 / 2", json!(-3)),
        ("7 % 3", json!(1)),
        ("7 / 2.0", json!(3.5)),
        ("1 + 1.5", json!(2.5)),
        ("2.0", json!(2.0)),
        ("2.0 + 1", json!(3.0)),
        ("inputs.n > 3", json!(true)),
        ("inputs.n == 5.0", json!(true)),
        ("inputs.f < inputs.n", json!(true)),
        ("inputs.big + 0", json!(9_007_199_254_740_993_i64)),
        ("0x1f", json!(31)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("1e3", json!(1000.0)),
        ("\"a\" + 'b'", json!("ab")),
        ("size(inputs.s)", json!(5)),
        ("inputs.s.size()", json!(5)),
        ("inputs.s.contains(\"llo\")", json!(true)),
        ("inputs.s.startsWith('h') && inputs.s.endsWith('o')", json!(true)),
        ("inputs.s.matches('^h.llo$')", json!(true)),
        ("matches('abc', 'b')", json!(true)),
        ("'A-b'.lowerAscii() + 'a'.upperAscii()", json!("a-bA")),
        ("' x '.trim()", json!("x")),
        ("'a,b'.split(',')", json!(["a", "b"])),
        ("['a','b'].join('-')", json!("a-b")),
        ("'aXbX'.replace('X', '.')", json!("a.b.")),
        ("'héllo'.substring(1, 3)", json!("él")),
        ("'héllo'.indexOf('l')", json!(2)),
        ("r'\\d'", json!("\\d")),
        ("'\\u00e9'", json!("é")),
        ("\"}\" + '{'", json!("}{")),
        ("[1, 2] + [3]", json!([1, 2, 3])),
        ("inputs.xs[0]", json!(1)),
        ("inputs.xs[size(inputs.xs) - 1]", json!(3)),
        ("inputs.xs[1.0]", json!(2)),
        ("2 in inputs.xs", json!(true)),
        ("2.0 in inputs.xs", json!(true)),
        ("'z' in inputs.keys", json!(true)),
        ("'q' in inputs.keys", json!(false)),
        ("{'b': 1, 'a': [inputs.n]}", json!({"b": 1, "a": [5]})),
        ("{'k': 1} == {'k': 1.0}", json!(true)),
        ("{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", json!(true)),
        ("[1, [2]] == [1.0, [2.0]]", json!(true)),
        ("null == null", json!(true)),
        ("inputs.z == null", json!(true)),
        ("1 == '1'", json!(false)),
        ("1 != null", json!(true)),
        ("'a' < 'b'", json!(true)),
        ("false < true", json!(true)),
        ("!inputs.t", json!(false)),
        ("-inputs.n", json!(-5)),
        ("- -1", json!(1)),
        ("inputs.n > 3 ? 'big' : 'small'", json!("big")),
        ("true ? 1 : inputs.nope", json!(1)),
        ("has(inputs.o.present)", json!(true)),
        ("has(inputs.o.nope)", json!(false)),
        ("has(inputs.z.x)", json!(false)),
        ("inputs['in']", json!(1)),
        ("a.output['odd key']", json!(7)),
        ("a.output.items[0].n > 1", json!(true)),
        ("inputs.xs.map(x, x * 2)", json!([2, 4, 6])),
        ("inputs.xs.filter(x, x > 1)", json!([2, 3])),
        ("inputs.xs.map(x, x > 1, x * 10)", json!([20, 30])),
        ("inputs.xs.all(x, x > 0)", json!(true)),
        ("inputs.xs.exists(x, x > 2)", json!(true)),
        ("inputs.xs.exists_one(x, x > 2)", json!(true)),
        ("inputs.keys.map(k, k)", json!(["z", "a", "m"])),
        ("inputs.keys.map(k, inputs.keys[k])", json!([1, 2, 3])),
        ("inputs.keys.filter(k, k != 'a')", json!(["z", "m"])),
        ("inputs.rows.map(r, {'n': r.n, 'name': r.name})", json!([{"n": 2, "name": "x"}, {"n": 3, "name": "y"}])),
        ("inputs.xs.map(x, inputs.xs.map(y, x * y))", json!([[1, 2, 3], [2, 4, 6], [3, 6, 9]])),
        ("inputs.xs.map(x, inputs.xs.filter(x, x > 1))", json!([[2, 3], [2, 3], [2, 3]])),
        ("[[1, 2], [3]].map(x, x.map(y, y + size(x)))", json!([[3, 4], [4]])),
        ("[].all(x, false)", json!(true)),
        ("[].map(x, x)", json!([])),
        ("string(5) + string(2.0) + string(true) + string(null) + string([1])", json!("52.0truenull[1]")),
        ("int('12') + int(2.9)", json!(14)),
        ("double('1.5')", json!(1.5)),
        ("bool('true')", json!(true)),
        ("false && inputs.nope", json!(false)),
        ("inputs.nope && false", json!(false)),
        ("true || 1", json!(true)),
        ("inputs.nope == 1 || true", json!(true)),
        ("inputs.mixed.exists(x, x > 100 || x == '3')", json!(true)),
        ("inputs.mixed[5].k", json!(1)),
        ("inputs.o", json!({"present": 1, "b": {"c": "deep"}})),
        ("1 + // one\n 2", json!(3)),
        ("[1,2,3,]", json!([1, 2, 3])),
    ] {
        assert_eq!(evaluate(text), Ok(wanted.clone()), "{text}");
        assert_eq!(evaluate(text).unwrap().to_string(), wanted.to_string(), "{text}: the order of keys, or int for double");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    for (text, wanted) in [
        ("inputs.o.missing", "no key \"missing\" in inputs.o; it has: present, b"),
        ("inputs.o.presnt", "did you mean \"present\"?"),
        ("inputs.z.x", "no key \"x\" in inputs.z: it is null"),
        ("inputs.xs[3]", "inputs.xs has 3 elements, there is no index 3"),
        ("inputs.xs[-1]", "no index -1"),
        ("inputs.xs['a']", "must be an integer"),
        ("inputs.n.x", "it is an integer"),
        ("inputs.rows[0].age", "no key \"age\" in inputs.rows[0]"),
        ("1 / 0", "division by zero"),
        ("1.0 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("9223372036854775807 + 1", "overflow"),
        ("-9223372036854775808 / -1", "overflow"),
        ("1e308 * 10", "finite"),
        ("1.5 % 2", "integers"),
        ("'a' + 1", "string("),
        ("1 < 'a'", "cannot be applied"),
        ("inputs.n && true", "needs booleans"),
        ("inputs.n ? 1 : 2", "boolean"),
        ("!1", "boolean"),
        ("-'a'", "number"),
        ("'a' in 'abc'", "contains"),
        ("1 in 2", "list or a map"),
        ("{1: 2}", "strings"),
        ("{'a': 1, 'a': 2}", "twice"),
        ("size(1)", "size needs"),
        ("int('x')", "not an integer"),
        ("int(1e30)", "range"),
        ("'abc'.substring(2, 9)", "outside"),
        ("nothing", "`nothing`"),
        ("3u", "unsigned"),
        ("b'x'", "byte strings"),
        ("timestamp('2020-01-01')", "does not exist"),
        ("duration('1s')", "does not exist"),
        ("foo(1)", "no function `foo`"),
        ("siez('x')", "no function"),
        ("size()", "wrong arguments"),
        ("'a'.matches('(')", "not a pattern"),
        ("x.map(1, 2)", "simple name"),
        ("inputs.xs.map(x)", "wrong arguments"),
        ("Foo{a: 1}", "JSON values"),
        ("1 +", "must follow `+`"),
        ("", "empty"),
        ("1 = 1", "`=` does not fit"),
        ("a.?b", "optional"),
        ("(1", "expect"),
        ("1)", "does not fit"),
        ("inputs.xs.exists_one(x, x)", "boolean"),
        ("99999999999999999999", "99999999999999999999"),
        ("a b", "does not fit"),
        ("'abc", "not closed"),
        ("#", "means nothing"),
        ("é", "means nothing"),
    ] {
        let error = evaluate(text).expect_err(text);
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn work_is_bounded_without_a_clock() {
    let begin = std::time::Instant::now();
    for text in [
        "[1,2,3,4,5,6,7,8,9,0].map(a,[1,2,3,4,5,6,7,8,9,0].map(b,[1,2,3,4,5,6,7,8,9,0].map(c,[1,2,3,4,5,6,7,8,9,0].map(d,[1,2,3,4,5,6,7,8,9,0].map(e,[1,2,3,4,5,6,7,8,9,0].map(f,1))))))",
        "[1,2,3,4,5,6,7,8,9,0].exists(a,[1,2,3,4,5,6,7,8,9,0].exists(b,[1,2,3,4,5,6,7,8,9,0].exists(c,[1,2,3,4,5,6,7,8,9,0].exists(d,[1,2,3,4,5,6,7,8,9,0].exists(e,[1,2,3,4,5,6,7,8,9,0].exists(f,false)||inputs.nope)))))",
    ] {
        let error = evaluate(text).unwrap_err();
        assert!(error.contains("steps") || error.contains("MiB"), "{error}");
    }
    let mut doubled = "'0123456789'".to_owned();
    for at in 0..40 {
        doubled = format!("[{doubled}].map(x{at}, x{at} + x{at})[0]");
    }
    let error = evaluate(&doubled).unwrap_err();
    assert!(error.contains("MiB") || error.contains("steps") || error.contains("deep"), "{error}");
    assert!(evaluate("'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'.matches('(a*)*b')").is_ok());
    assert!(evaluate("'a'.matches('((a{1,100}){1,100}){1,100}')").unwrap_err().contains("not a pattern"));
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}

#[test]
fn the_cache_is_bounded_and_small_expressions_are_fast() {
    let languages = Languages::new();
    let scope = scope();
    for n in 0..3000 {
        let expression = Expression { language: "cel".into(), text: format!("{n} + 1") };
        assert_eq!(languages.evaluate(&expression, &scope), Ok(json!(n + 1)));
    }
    let expression = Expression { language: "cel".into(), text: "inputs.n > 3".into() };
    let begin = std::time::Instant::now();
    for _ in 0..100_000 {
        assert_eq!(languages.evaluate(&expression, &scope), Ok(json!(true)));
    }
    println!("`inputs.n > 3`: {:?} each", begin.elapsed() / 100_000);
    assert!(languages.evaluate(&Expression { language: "jsonata".into(), text: "1".into() }, &scope).is_err());
}
