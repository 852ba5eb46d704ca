//! Workflows that call workflows: what they are given, and that it comes to an end.

use std::collections::BTreeMap;

use serde_json::json;
use viat_dialect::{Catalogue, Compiled, Names, Style, compile, compile_named};
use viat_engine::ir::{InputDeclaration, Op};

/// Workflows with what each calls and declares; one script `s`, one prompt `p`.
#[derive(Default)]
struct World {
    calls: BTreeMap<String, Vec<String>>,
    inputs: BTreeMap<String, Vec<InputDeclaration>>,
}

impl Catalogue for World {
    fn script_names(&self) -> Vec<String> {
        vec!["s".into()]
    }

    fn workflow_names(&self) -> Vec<String> {
        self.calls.keys().cloned().collect()
    }

    fn other_kind(&self, name: &str) -> Option<String> {
        (name == "p").then(|| "prompt resource".into())
    }

    fn calls_of(&self, workflow: &str) -> Vec<String> {
        self.calls.get(workflow).cloned().unwrap_or_default()
    }

    fn inputs_of(&self, workflow: &str) -> Option<Vec<InputDeclaration>> {
        self.inputs.get(workflow).cloned()
    }
}

fn world(calls: &[(&str, &[&str])]) -> World {
    World {
        calls: calls.iter().map(|(name, called)| ((*name).to_owned(), called.iter().map(|each| (*each).to_owned()).collect())).collect(),
        ..World::default()
    }
}

fn declaring() -> World {
    let text = "inputs: {count: {type: integer, minimum: 1}, note: {type: string, required: false}, tags: {type: array, items: {type: string}, default: []}}\nsteps: [{id: a, set: 1}]\n";
    let declared = compile("inner.yaml", text.as_bytes(), &Names::default()).definition.expect("a document").inputs;
    let mut world = world(&[("inner", &[]), ("bare", &[]), ("unknown", &[])]);
    world.inputs = [("inner".to_owned(), declared), ("bare".to_owned(), vec![])].into();
    world
}

fn named(entries: &str, world: &World) -> Compiled {
    compile_named("w.yaml", format!("inputs: {{n: {{}}}}\nsteps:\n{entries}\n").as_bytes(), Some("w"), world)
}

fn refused(entries: &str, world: &World, wanted: &[&str]) {
    let result = named(entries, world);
    let drawn = result.rendered(Style::Plain);
    assert!(result.definition.is_none(), "accepted: {entries}");
    assert_eq!(drawn.matches("error[").count(), 1, "{entries}\n{drawn}");
    for word in wanted {
        assert!(drawn.contains(word), "lacks {word:?}:\n{drawn}");
    }
}

fn accepted(entries: &str, world: &World) -> Op {
    let result = named(entries, world);
    let drawn = result.rendered(Style::Plain);
    let definition = result.definition.unwrap_or_else(|| panic!("refused: {entries}\n{drawn}"));
    definition.regions[0].nodes[0].op.clone()
}

#[test]
fn a_call_names_a_workflow() {
    let world = world(&[("other", &[])]);
    let op = |text: &str| serde_json::to_value(accepted(text, &world)).unwrap();
    assert_eq!(op("  - {id: a, workflow: other}"), json!({"call": {"workflow": "other", "args": {"literal": {}}}}));
    assert_eq!(
        op("  - {id: a, workflow: other, args: {x: 1}, version: 3}"),
        json!({"call": {"workflow": "other", "version": 3, "args": {"literal": {"x": 1}}}})
    );
    op("  - {id: a, workflow: other, args: {x: $inputs.n}}\n  - {id: b, set: $a.output.v}");
    for (text, wanted) in [
        ("workflow: othr", "did you mean `other`?"),
        ("workflow: nope", "there is no workflow `nope`"),
        ("workflow: s", "`s` is a script, not a workflow"),
        ("workflow: p", "`p` is a prompt resource, not a workflow"),
        ("workflow: $inputs.n", "choose with an `if` entry"),
        ("workflow: 3", "`workflow` must be a string"),
        ("workflow: other, version: 0", "`version` must be an integer from 1"),
        ("workflow: other, version: \"1\"", "`version` must be an integer"),
        ("workflow: other, version: latest", "`version` must be an integer"),
        ("workflow: other, args: [1]", "`args` must be a map"),
        ("workflow: other, args: {x: $nope.output}", "$nope"),
        ("workflow: other, timeout: PT1S", "does not belong to a `workflow` entry"),
        ("workflow: other, on_error: continue", "only a script entry can"),
    ] {
        refused(&format!("  - {{id: a, {text}}}"), &world, &[wanted, ":3:"]);
    }
}

#[test]
fn a_workflow_that_would_call_itself_is_refused_with_the_chain() {
    let chained = world(&[("w", &[]), ("through", &["w"]), ("far", &["leaf", "through"]), ("leaf", &[]), ("round", &["about"]), ("about", &["round"])]);
    refused("  - {id: a, workflow: w}", &chained, &["would call itself: w → w", "w.yaml:3:23"]);
    refused("  - {id: a, workflow: through}", &chained, &["would call itself: w → through → w"]);
    refused("  - {id: a, workflow: far}", &chained, &["w → far → through → w"]);
    refused("  - {id: a, workflow: round}", &chained, &["would never end: round → about → round"]);
    refused("  - {id: a, if: true, then: [{id: b, loop: {over: [1], steps: [{id: c, workflow: through}]}}]}", &chained, &["w → through → w"]);
    refused("  - {id: a, script: s, on_error: {catch: [{id: b, parallel: {branches: [{id: c, workflow: through}]}}]}}", &chained, &["w → through → w"]);
    accepted("  - {id: a, workflow: leaf}\n  - {id: b, workflow: leaf}", &chained);
    // Before it exists the name is known all the same; without a name there is nothing to come back to.
    refused("  - {id: a, workflow: w}", &world(&[]), &["w → w"]);
    assert!(compile("w.yaml", b"steps: [{id: a, workflow: through}]", &chained).definition.is_some());
    assert!(compile_named("w.yaml", b"steps: [{id: a, workflow: through}]", Some("v"), &chained).definition.is_some());
    let twice = named("  - {id: a, workflow: through}\n  - {id: b, workflow: through}", &chained);
    assert_eq!(twice.diagnostics.iter().filter(|one| one.code == "endless-call").count(), 2);
}

#[test]
fn calls_go_sixteen_deep_and_no_deeper() {
    let chain = |length: usize| World {
        calls: (1..=length).map(|n| (format!("w{n}"), if n < length { vec![format!("w{}", n + 1)] } else { vec![] })).collect(),
        ..World::default()
    };
    accepted("  - {id: a, workflow: w1}", &chain(15));
    refused("  - {id: a, workflow: w1}", &chain(16), &["at most 16 deep", "w → w1 → w2", "→ w16"]);
    refused("  - {id: a, workflow: w1}", &chain(5_000), &["at most 16 deep"]);
    accepted("  - {id: z, workflow: w5}\n  - {id: a, workflow: w2}", &chain(16));
    // What is known from one call counts where another call comes to it deeper.
    refused("  - {id: z, workflow: w2}\n  - {id: a, workflow: w1}", &chain(16), &["w → w1 → w2", ":4:"]);
    // Every workflow of a layer calls all of the next: many ways, few workflows.
    let layers = World {
        calls: (0..14)
            .flat_map(|layer| {
                (0..10).map(move |n| (format!("l{layer}_{n}"), if layer < 13 { (0..10).map(|m| format!("l{}_{m}", layer + 1)).collect() } else { vec![] }))
            })
            .collect(),
        ..World::default()
    };
    accepted("  - {id: a, workflow: l0_0}", &layers);
}

#[test]
fn args_are_checked_against_what_the_workflow_declares() {
    let world = declaring();
    for args in
        ["{count: 1}", "{count: $inputs.n}", "{count: \"${ inputs.n }\", note: null}", "{count: 2, note: x, tags: [a, $inputs.n]}", "{tags: [a], count: 9}"]
    {
        accepted(&format!("  - {{id: a, workflow: inner, args: {args}}}"), &world);
    }
    accepted("  - {id: a, workflow: bare}", &world);
    accepted("  - {id: a, workflow: unknown, args: {whatever: 1}}", &world);
    accepted("  - {id: a, workflow: inner, version: 1, args: {old: 1}}", &world);
    for (call, wanted) in [
        ("workflow: inner", vec!["the workflow `inner` needs `count`", "3:23"]),
        ("workflow: inner, args: {}", vec!["needs `count`", "args: {count: …}"]),
        ("workflow: inner, args: ", vec!["needs `count`"]),
        ("workflow: inner, args: {note: x}", vec!["needs `count`", "3:30"]),
        ("workflow: inner, args: {count: 1, nte: x}", vec!["has no input `nte`", "did you mean `note`?"]),
        ("workflow: inner, args: {count: 1, zzzzzz: $inputs.n}", vec!["has no input `zzzzzz`", "declared are `count`"]),
        ("workflow: bare, args: {x: 1}", vec!["has no input `x`", "declares no inputs"]),
        ("workflow: inner, args: {count: 0}", vec!["inputs.count", "minimum", "3:44"]),
        ("workflow: inner, args: {count: 0, note: $inputs.n}", vec!["inputs.count", "minimum"]),
        ("workflow: inner, args: {count: two}", vec!["inputs.count", "integer"]),
        ("workflow: inner, args: {count: null}", vec!["inputs.count"]),
        ("workflow: inner, args: {count: 1, tags: [1]}", vec!["inputs.tags[0]"]),
        ("workflow: inner, args: {count: .nan}", vec!["`.nan`"]),
        ("workflow: inner, args: {count: \"${ 1 + }\"}", vec!["1 +"]),
    ] {
        refused(&format!("  - {{id: a, {call}}}"), &world, &wanted);
    }
}
