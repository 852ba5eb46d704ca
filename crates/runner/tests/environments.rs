//! Environments: built once per lock, shared, named only when whole, and taken up again when the builder died.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use support::{Bench, fault, python, value};
use viat_runner::script::environments::{Environments, Request, State, Tools};
use viat_runner::script::{FaultKind, Language, Metadata, Node, Profile, ScriptCode};

/// Stands in for `uv`: what it finds is in a file beside it, and it writes down what it was asked.
const UV: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$1 $2" >> "$here/asked"
for last; do :; done
case "$1 $2" in
"pip compile") cat "$here/versions" 2>/dev/null || { echo "no version of thing fits" >&2; exit 1; } ;;
"venv --quiet") mkdir -p "$last/bin" && ln -s PYTHON "$last/bin/python" ;;
"pip install") cp "$last" "$(dirname "$last")/bin/installed" ;;
*) echo "unexpected: $*" >&2; exit 2 ;;
esac
"#;

struct Site {
    folder: tempfile::TempDir,
    environments: Environments,
    tools: Tools,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let python = python().path;
        let uv = folder.path().join("uv");
        fs::write(&uv, UV.replace("PYTHON", python.to_str().unwrap())).unwrap();
        fs::set_permissions(&uv, fs::Permissions::from_mode(0o755)).unwrap();
        let environments = Environments::at(folder.path().join("environments"));
        Site { tools: Tools { uv: Some(uv), python: Some(python), ..Tools::default() }, environments, folder }
    }

    fn versions(&self, text: &str) {
        fs::write(self.folder.path().join("versions"), text).unwrap();
    }

    fn asked(&self, what: &str) -> usize {
        fs::read_to_string(self.folder.path().join("asked")).unwrap_or_default().lines().filter(|line| *line == what).count()
    }

    fn build(&self, request: &Request) -> State {
        assert_eq!(self.environments.ask(request).unwrap(), State::Building);
        self.environments.build(&request.key(), &self.tools).unwrap()
    }

    /// Whole environments, by their folders.
    fn built(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("environments")).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| !path.ends_with("requests")).collect()
    }
}

fn request(dependencies: &str) -> Request {
    let metadata = Metadata::of(Language::Python, &format!("# /// script\n# dependencies = {dependencies}\n# ///\n")).unwrap();
    Request::of(Language::Python, &metadata).unwrap()
}

fn folder_of(state: &State, site: &Site) -> PathBuf {
    match state {
        State::Ready { environment } => site.environments.folder(environment),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_lock_is_one_environment_and_a_rebuild_takes_the_same_versions() {
    let site = Site::new();
    site.versions("thing==1.0\n");
    let first = site.build(&request("['thing']"));
    assert_eq!(site.environments.ask(&request("['thing']")).unwrap(), first, "it is ready: nothing is asked for");
    let folder = folder_of(&first, &site);
    assert_eq!(fs::read_to_string(folder.join("bin/installed")).unwrap(), "thing==1.0\n");
    // another request that comes to the same versions
    assert_eq!(site.build(&request("['thing>=1', 'thing']")), first);
    assert_eq!((site.asked("pip compile"), site.asked("pip install")), (2, 1));
    // newer versions are there now, but a lock stays what it is until somebody says so
    site.versions("thing==2.0\n");
    fs::remove_file(folder.join("bin/python")).unwrap();
    let damaged = site.environments.ready(&request("['thing']").key(), "s").unwrap_err();
    assert!(damaged.kind == FaultKind::EnvironmentNotReady && damaged.message.contains("damaged"), "{damaged}");
    assert_eq!(site.build(&request("['thing']")), first);
    assert_eq!(fs::read_to_string(folder.join("bin/installed")).unwrap(), "thing==1.0\n");
    assert!(folder.join("bin/python").exists());
    site.environments.ask_again(&request("['thing']"), true).unwrap();
    let newer = site.environments.build(&request("['thing']").key(), &site.tools).unwrap();
    assert_ne!(newer, first);
    assert_eq!(fs::read_to_string(folder_of(&newer, &site).join("bin/installed")).unwrap(), "thing==2.0\n");
}

#[test]
fn the_order_of_dependencies_does_not_matter_but_the_python_does() {
    assert_eq!(request("['a', 'b', 'a']").key(), request("['b', ' a']").key());
    assert_ne!(request("['a']").key(), request("['b']").key());
    let with_python = Metadata::of(Language::Python, "# /// script\n# requires-python = '>=3.9'\n# dependencies = ['a']\n# ///\n").unwrap();
    assert_ne!(Request::of(Language::Python, &with_python).unwrap().key(), request("['a']").key());
    assert_eq!(Request::of(Language::Python, &Metadata::default()), None);
}

#[test]
fn what_goes_wrong_is_a_state_with_the_reason_and_leaves_nothing_behind() {
    let site = Site::new();
    let State::Failed { reason } = site.build(&request("['thing']")) else { panic!("it cannot be built") };
    assert!(reason.contains("no version of thing fits"), "{reason}");
    let refused = site.environments.ready(&request("['thing']").key(), "s").unwrap_err();
    assert!(refused.message.contains("no version of thing fits") && refused.message.contains("viat env build s"), "{refused}");
    assert_eq!(site.built(), [] as [PathBuf; 0]);
    let without = Tools { uv: None, ..site.tools.clone() };
    assert_eq!(site.environments.ask(&request("['thing']")).unwrap(), State::Building);
    let State::Failed { reason } = site.environments.build(&request("['thing']").key(), &without).unwrap() else { panic!("there is no uv") };
    assert!(reason.contains("there is no uv") && reason.contains("VIAT_UV"), "{reason}");
    // asked for again, it is tried again
    site.versions("thing==1.0\n");
    assert!(matches!(site.build(&request("['thing']")), State::Ready { .. }));
}

#[test]
fn a_dead_builders_request_is_found_and_its_half_environment_is_not_used() {
    let site = Site::new();
    site.versions("thing==1.0\n");
    let wanted = request("['thing']");
    assert_eq!(site.environments.ask(&wanted).unwrap(), State::Building);
    let half = site.folder.path().join("environments").join(format!("building-{}", wanted.key()));
    fs::create_dir_all(half.join("bin")).unwrap();
    fs::write(half.join("bin/half"), "").unwrap();
    let refused = site.environments.ready(&wanted.key(), "s").unwrap_err();
    assert!(refused.message.contains("still being built"), "{refused}");
    assert_eq!(site.environments.abandoned().unwrap(), [wanted.key()]);
    // somebody is at it: then it is not abandoned
    let busy = fs::File::create(site.folder.path().join("environments/requests").join(format!("{}.busy", wanted.key()))).unwrap();
    busy.lock().unwrap();
    assert_eq!(site.environments.abandoned().unwrap(), [] as [String; 0]);
    drop(busy);
    let folder = folder_of(&site.environments.build(&wanted.key(), &site.tools).unwrap(), &site);
    assert!(!folder.join("bin/half").exists() && !half.exists());
    assert_eq!(site.environments.abandoned().unwrap(), [] as [String; 0]);
}

fn needing(request: &Request, source: &str) -> Arc<ScriptCode> {
    Arc::new(ScriptCode { environment: Some(request.key()), ..ScriptCode::new("needy", 1, Language::Python, source, source) })
}

#[tokio::test]
async fn an_attempt_fails_until_the_environment_is_ready_and_then_runs_in_it() {
    let site = Site::new();
    site.versions("thing==1.0\n");
    let wanted = request("['thing']");
    let bench = Bench::with(|config| config.environments = site.environments.clone());
    let code = needing(&wanted, "import os\ndef main():\n    return os.readlink('/proc/self/exe') and __import__('sys').executable\n");
    let never = bench.pools.reserve(Arc::clone(&code)).await.unwrap_err();
    assert!(never.kind == FaultKind::EnvironmentNotReady && never.message.contains("viat env build needy"), "{never}");
    let folder = folder_of(&site.build(&wanted), &site);
    assert_eq!(value(&bench.call(&code, "{}").await), &serde_json::json!(folder.join("bin/python").to_str().unwrap()));
}

#[tokio::test]
async fn packages_of_javascript_are_found_beside_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let npm = folder.path().join("npm");
    let script = "#!/bin/sh\nfor last; do :; done\n[ \"$last\" = ci ] || { echo '{}' > package-lock.json; exit 0; }\nmkdir -p node_modules/shout && echo 'module.exports = (text) => text.toUpperCase();' > node_modules/shout/index.js\n";
    fs::write(&npm, script).unwrap();
    fs::set_permissions(&npm, fs::Permissions::from_mode(0o755)).unwrap();
    let node = Node::resolve(Path::new("/nonexistent"), None).unwrap().unwrap();
    let metadata = Metadata::of(Language::JavaScript, "// /// script\n// dependencies = {shout = '^1.0.0'}\n// ///\n").unwrap();
    let request = Request::of(Language::JavaScript, &metadata).unwrap();
    assert_eq!(request.dependencies(), ["shout@^1.0.0"]);
    let environments = Environments::at(folder.path().join("environments"));
    environments.ask(&request).unwrap();
    let tools = Tools { npm: Some(npm), node: Some(node.path), ..Tools::default() };
    assert!(matches!(environments.build(&request.key(), &tools).unwrap(), State::Ready { .. }));
    for profile in [Profile::Trusted, Profile::Strict] {
        let bench = Bench::with(|config| (config.environments, config.profile) = (environments.clone(), profile));
        for source in
            ["import shout from 'shout';\nexport default () => shout('a');\n", "const shout = require('shout');\nmodule.exports = () => shout('a');\n"]
        {
            let code = ScriptCode { environment: Some(request.key()), ..ScriptCode::new("j", 1, Language::JavaScript, source, source) };
            assert_eq!(value(&bench.call(&Arc::new(code), "{}").await), &serde_json::json!("A"));
        }
        let without = Arc::new(ScriptCode::new("j", 1, Language::JavaScript, "import 'shout';\nexport default () => 1;\n", "x"));
        assert_eq!(fault(&bench.call(&without, "{}").await, FaultKind::Exception).kind, FaultKind::Exception);
    }
}

#[test]
fn dependencies_that_cannot_be_meant_are_refused_with_their_line() {
    for (language, mark, line, said) in [
        (Language::JavaScript, "//", "dependencies = ['Zod Pack']", "not NAME@RANGE"),
        (Language::JavaScript, "//", "dependencies = {zod = 3}", "zod is a range of versions"),
        (Language::Python, "#", "dependencies = ['']", "names nothing that can be installed"),
        (Language::Python, "#", "dependencies = {a = '1'}", "a list of texts"),
    ] {
        let wrong = Metadata::of(language, &format!("{mark} /// script\n{mark} {line}\n{mark} ///\n")).unwrap_err();
        assert!(wrong.line == 2 && wrong.message.contains(said), "{wrong:?}");
    }
}
