//! The workflows of the documentation are what the compiler takes.
#![expect(clippy::disallowed_methods, reason = "the test reads the documentation; the crate reads no files")]

use std::path::Path;

use viat_dialect::{Names, Style, compile};

/// Those that show what is refused, by their file.
const WRONG: [&str; 2] = ["broken.yaml", "workflows/wrong.yaml"];

#[test]
fn every_workflow_of_the_documentation_compiles() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut pages: Vec<_> = std::fs::read_dir(folder).expect("docs").map(|file| file.expect("a file").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
    pages.sort();
    let texts: Vec<String> = pages.iter().map(|page| std::fs::read_to_string(page).expect("a page")).collect();
    let named = |before: &str| {
        let all = texts.iter().flat_map(|text| text.split(before).skip(1));
        all.filter_map(|rest| rest.split_whitespace().next()).map(str::to_owned).collect::<Vec<_>>()
    };
    let names = Names { scripts: named("script create --name "), workflows: named("workflow create ") };
    let mut count = 0;
    for (page, text) in pages.iter().zip(&texts) {
        for block in text.split("\n```yaml file=").skip(1) {
            let (file, rest) = block.split_once('\n').expect("a block has a first line");
            if file.starts_with("scripts/") {
                // A request, not a workflow.
                continue;
            }
            let body = rest.split("\n```").next().expect("a block has an end");
            let result = compile(file, format!("{body}\n").as_bytes(), &names);
            let drawn = result.rendered(Style::Plain);
            assert_eq!(result.definition.is_none(), WRONG.contains(&file), "{}\n{drawn}", page.display());
            count += 1;
        }
    }
    assert!(count > 15, "only {count} workflows were found");
}
