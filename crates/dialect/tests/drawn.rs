//! Diagnostics as they are drawn, letter by letter.

use viat_dialect::{Names, Style, compile};

fn drawn(text: &str) -> String {
    let names = Names { scripts: vec!["reserve".into(), "charge".into()], workflows: vec![] };
    compile("w.yaml", text.as_bytes(), &names).rendered(Style::Plain)
}

#[test]
fn show() {
    for text in [
        "steps:\n  - id: book\n    script: reserv\n    retry: {times: 99, initial_ms: 100, factor: .inf, max_ms: 50}\n  - id: pay\n    script: charge\n    args: {id: $book.outptu.id, text: \"n = ${ bok.output.n + }\", t: \"héllo ${ bok.output }\"}\n",
        "steps:\n  - {id: twin, set: 1}\n  - {id: twin, set: 2}\n",
        "steps:\n  - id: a\n    set: ${ true ? 1 : 2 }\n",
        "timeout: PT1S\nsteps:\n  - id: a\n    script: charge\n    timeout: PT1M\n    retry: {times: 3, initial_ms: 1000, factor: 1, max_ms: 1000}\n",
        "steps:\n  - id: check\n    if: ${ 1 == 1 }\n    then:\n      - {id: inner, set: 1}\noutputs:\n  v: $inner.output\n",
        "steps:\n  - id: a\n    set: |\n      line one\n      ${ 1 + }\n",
        "steps:\n  - id: a\n    loop:\n      over: [1]\n      steps:\n        - {id: b, script: charge}\n    on_error: continue\n",
        "steps: [{id: a, script: charge\n",
        "steps:\n  - id: 世\n",
    ] {
        println!("{}\n----", drawn(text));
    }
}
