//! Declarations of inputs and what callers give.

use serde_json::{Value, json};
use viat_dialect::{Languages, Names, Style, check_form, check_inputs, compile};
use viat_engine::expression::Evaluate;
use viat_engine::ir::{Definition, Op};

fn declared(inputs: &str) -> Result<Definition, String> {
    let text = format!("inputs: {inputs}\nsteps: [{{id: a, set: 1}}]\n");
    let result = compile("w.yaml", text.as_bytes(), &Names::default());
    let drawn = result.rendered(Style::Plain);
    result.definition.ok_or(drawn)
}

fn given(inputs: &str, value: Value) -> Result<String, String> {
    match check_inputs(&declared(inputs).expect(inputs), &value) {
        Ok(map) => Ok(Value::Object(map).to_string()),
        Err(problems) => Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

#[test]
fn declarations_are_checked() {
    for (inputs, wanted) in [
        ("{n: int}", "integer"),
        ("{n: sting}", "string"),
        ("{n: 3}", "{}"),
        ("{n: [string]}", "{}"),
        ("[n]", "map"),
        ("{n: {type: intger}}", "intger"),
        ("{n: {minimum: high}}", "high"),
        ("{n: {type: integer, default: x}}", "default"),
        ("{n: {type: integer, minimum: 5, default: 1}}", "minimum"),
        ("{n: {pattern: '('}}", "schema"),
        ("{n: {$ref: 'https://example.com/x.json'}}", "schema"),
        ("{n: {items: {type: 7}}}", "schema"),
        ("{n: {default: .inf}}", "finite"),
    ] {
        let error = declared(inputs).expect_err(inputs);
        assert!(error.contains(wanted) && error.contains("w.yaml:1:"), "{inputs}\n{error}");
    }
    let text = "inputs: {n: {type: integer, minimun: 1}}\nsteps: [{id: a, set: 1}]\n";
    assert!(compile("w.yaml", text.as_bytes(), &Names::default()).rendered(Style::Plain).contains("did you mean `minimum`?"));
    assert!(declared("").is_ok() && declared("{}").is_ok() && declared("{any: {}, o: {type: object, properties: {k: {type: string}}, required: [k]}}").is_ok());
}

#[test]
fn what_is_given_is_checked_and_filled_in() {
    const BOTH: &str = "{n: {type: integer, minimum: 1}, s: string}";
    assert_eq!(given(BOTH, json!({"s": "x", "n": 1})).unwrap(), r#"{"n":1,"s":"x"}"#);
    for (value, wanted) in [
        (json!({}), "inputs.n: it is required"),
        (json!({"n": 0, "s": "x"}), "inputs.n: 0 is less than the minimum of 1"),
        (json!({"n": "1", "s": "x"}), "inputs.n: \"1\" is not of type \"integer\""),
        (json!({"n": 1, "s": "x", "extra": 1}), "no input `extra`"),
        (json!({"n": 1, "s": null}), "inputs.s"),
        (json!([1]), "object"),
        (json!(3), "object"),
        (json!({"nn": 1, "s": "x", "n": 1}), "declared are `n`, `s`"),
        (json!({"n": u64::MAX, "s": "x"}), "64-bit"),
    ] {
        let error = given(BOTH, value.clone()).expect_err(&value.to_string());
        assert!(error.contains(wanted), "{value}: {error}");
    }
    assert!(given("{count: integer}", json!({"cuont": 1})).unwrap_err().contains("did you mean `count`?"));
    const OPTIONAL: &str = "{d: {type: integer, default: 10}, z: {type: string, required: false}, zd: {type: string, default: null, required: false}, a: {}}";
    assert_eq!(given(OPTIONAL, json!({"a": null})).unwrap(), r#"{"d":10,"z":null,"zd":null,"a":null}"#);
    assert_eq!(given(OPTIONAL, json!({"a": {"y": 1, "b": 2.0}, "z": null, "d": 2})).unwrap(), r#"{"d":2,"z":null,"zd":null,"a":{"y":1,"b":2.0}}"#);
    assert!(given(OPTIONAL, json!({"a": 1, "d": null})).is_err());
    assert!(
        given("{o: {type: object, properties: {items: {items: {type: string}}}}}", json!({"o": {"items": ["a", 3]}}))
            .unwrap_err()
            .starts_with("inputs.o.items[1]:")
    );
    // JSON Schema calls 2.0 an integer; it is taken and stays the double that it is.
    assert_eq!(given("{n: integer}", json!({"n": 2.0})).unwrap(), r#"{"n":2.0}"#);
    assert!(given("{n: integer}", json!({"n": 2.5})).is_err());
    assert!(given("{e: {type: string, format: email}}", json!({"e": "x"})).is_err());
}

#[test]
fn what_a_person_fills_in_is_checked_against_the_form() {
    let text =
        "steps: [{id: r, review: {title: t, form: {score: {type: integer, maximum: 5}, note: {type: string, required: false}, tags: {default: [a]}}}}]\n";
    let definition = compile("w.yaml", text.as_bytes(), &Names::default()).definition.expect("a sound document");
    let Op::Review(review) = &definition.regions[0].nodes[0].op else { panic!("no review") };
    let filled = |value: Value| match check_form(&review.form, &value) {
        Ok(map) => Value::Object(map).to_string(),
        Err(problems) => problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    };
    assert_eq!(filled(json!({"score": 3})), r#"{"score":3,"note":null,"tags":["a"]}"#);
    for (value, wanted) in [
        (json!({"score": 9}), "data.score: 9 is greater than the maximum of 5"),
        (json!({}), "data.score: it is required and not given (give a value of type integer)"),
        (json!(null), "data.score: it is required and not given (give a value of type integer)"),
        (json!({"score": 1, "scor": 1}), "data.scor: the form has no field `scor` (did you mean `score`?)"),
        (json!({"score": 1, "other": 1}), "data.other: the form has no field `other` (its fields are `score`, `note`, `tags`)"),
        (json!([1]), "the data must be a JSON object, not an array"),
    ] {
        assert_eq!(filled(value.clone()), wanted, "{value}");
    }
    assert_eq!(check_form(&[], &Value::Null).map(|map| map.len()), Ok(0));
    assert_eq!(Languages::new().check_form(&[], json!({"x": 1})).unwrap_err(), "data.x: the form has no field `x` (the review has no form)");
}
