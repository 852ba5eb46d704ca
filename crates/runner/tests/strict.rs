//! The strict profile: what a script in a cell cannot do, and that it works otherwise as it does elsewhere.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod support;

use std::sync::Arc;

use serde_json::json;
use support::{Bench, config, fault, script, script_in, value};
use viat_runner::script::{FaultKind, Interpreter, Language, Profile, ScriptCode, probe_strict};

fn bench() -> Bench {
    Bench::with(|config| config.profile = Profile::Strict)
}

/// Whether the machine has what a cell needs, as another program finds it. Where it has not, there is nothing to test, and that is said.
fn machine_has_namespaces() -> bool {
    let flags = ["--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "true"];
    let has = std::process::Command::new("unshare").args(flags).status().is_ok_and(|status| status.success());
    if !has {
        eprintln!("left out: no namespaces can be made on this machine (unshare {})", flags.join(" "));
    }
    has
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_cell_can_be_had_and_is_what_it_says() {
    if !machine_has_namespaces() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let found = probe_strict(&config(folder.path())).unwrap();
    assert!(found.seccomp && found.no_new_privs, "{found:?}");
    assert_eq!((found.foreign_processes, found.networks), (0, 0), "{found:?}");
    assert_eq!(found.other_user, is_root(), "{found:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("scratch")).unwrap().count(), 0);
}

/// What each language says of a thing it tries, in the attempt's folder and outside of it.
#[tokio::test]
async fn scripts_of_each_language_work_and_write_in_their_folder_only() {
    if !machine_has_namespaces() {
        return;
    }
    let bench = bench();
    let outside = bench.path("outside");
    let python = script(
        "import os\ndef main(outside):\n    open('inside', 'w').write('x')\n    try:\n        open(outside, 'w')\n    except OSError as error:\n        return [sorted(os.listdir('.')), error.strerror, os.environ['HOME'] == os.getcwd() == os.environ['TMPDIR']]\n",
    );
    let javascript = script_in(
        Language::JavaScript,
        "import fs from 'node:fs';\nexport default async function main({outside}) {\n  fs.writeFileSync('inside', 'x');\n  try { fs.writeFileSync(outside, 'x'); } catch (error) { return [fs.readdirSync('.'), error.code, process.env.HOME === process.cwd()]; }\n}\n",
    );
    let shell = script_in(Language::Shell, "echo x > inside\ntouch \"$VIAT_ARG_OUTSIDE\" && echo written || ls\n");
    let args = json!({ "outside": outside }).to_string();
    for _ in 0..2 {
        assert_eq!(*value(&bench.call(&python, &args).await), json!([["inside"], "Read-only file system", true]));
        assert_eq!(*value(&bench.call(&javascript, &args).await), json!([["inside"], "EROFS", true]));
        let report = bench.call(&shell, &args).await;
        assert_eq!(*value(&report), json!("inside"), "{}", report.log.text());
    }
    assert!(!outside.exists());
}

#[tokio::test]
async fn a_process_left_behind_ends_with_its_attempt() {
    if !machine_has_namespaces() {
        return;
    }
    let bench = bench();
    let code = script("import subprocess\ndef main():\n    subprocess.Popen(['sleep', '3600'], start_new_session=True)\n    return 'done'\n");
    let worker = bench.pools.reserve(Arc::clone(&code)).await.unwrap();
    let tree = worker.tree();
    drop(worker);
    assert_eq!(*value(&bench.call(&code, "{}").await), json!("done"));
    assert!(!tree.scratch.exists());
    assert!(!std::path::Path::new(&format!("/proc/{}", tree.guardian)).exists());
}

#[tokio::test]
async fn a_cell_ends_with_its_guardian() {
    if !machine_has_namespaces() {
        return;
    }
    let bench = bench();
    let code = script("import time\ndef main(): time.sleep(3600)\n");
    let worker = bench.pools.reserve(code).await.unwrap();
    let tree = worker.tree();
    let (_keep, stop) = tokio::sync::oneshot::channel();
    let run = worker.run(support::call("{}", None), stop, tokio::sync::mpsc::unbounded_channel().0);
    let kill = async { std::process::Command::new("kill").args(["-9", &tree.guardian.to_string()]).status().unwrap() };
    let (report, _) = tokio::join!(run, kill);
    assert!(fault(&report, FaultKind::ScriptBroken).message.contains("guardian"));
    assert!(!tree.scratch.exists());
    assert!(!viat_runner::script::kill_leftover(&tree).await.unwrap(), "nothing of it lives");
}

#[tokio::test]
async fn limits_hold_in_a_cell() {
    if !machine_has_namespaces() {
        return;
    }
    let bench = bench();
    let limited = |source: &str, change: fn(&mut ScriptCode)| {
        let mut code = ScriptCode::clone(&script(source));
        change(&mut code);
        Arc::new(code)
    };
    let cpu = limited("def main():\n    while True: pass\n", |code| code.settings.limits.cpu_s = Some(1));
    assert!(fault(&bench.call(&cpu, "{}").await, FaultKind::ScriptBroken).message.contains("limits.cpu"));
    let memory = limited("def main():\n    return len(bytearray(400 << 20))\n", |code| code.settings.limits.memory = Some(200 << 20));
    assert_eq!(fault(&bench.call(&memory, "{}").await, FaultKind::Exception).code, "MemoryError");
}

#[tokio::test]
async fn what_cannot_be_started_is_said() {
    if !machine_has_namespaces() {
        return;
    }
    let none = Bench::with(|config| (config.profile, config.interpreter) = (Profile::Strict, Some(Interpreter::at("/nowhere/python3"))));
    let said = none.pools.reserve(script("def main(): pass")).await.unwrap_err();
    assert!(said.kind == FaultKind::PoolSpawnFailed && said.message.contains("/nowhere/python3"), "{}", said.message);
    let false_one = Bench::with(|config| (config.profile, config.interpreter) = (Profile::Strict, Some(Interpreter::at("/bin/false"))));
    let said = false_one.pools.reserve(script("def main(): pass")).await.unwrap_err();
    assert!(said.message.contains("exited with code 1"), "{}", said.message);
}

/// A server of one answer, for whoever connects.
fn server() -> std::net::SocketAddr {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
        }
    });
    address
}

const ASK: &str = r#"
import socket, urllib.request, urllib.error
def main(url, plain):
    try:
        how = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if plain else []))
        return how.open(url, timeout=20).read().decode()
    except urllib.error.HTTPError as error:
        return [error.code, error.reason]
    except OSError as error:
        return str(error)
"#;

#[tokio::test]
async fn the_network_leads_to_declared_hosts_only() {
    if !machine_has_namespaces() {
        return;
    }
    let address = server();
    let port = address.port();
    let bench = Bench::with(|config| {
        config.profile = Profile::Strict;
        config.hosts.allow = Some(vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "*".to_owned()]);
    });
    let wanting = |hosts: &[String]| {
        let mut code = ScriptCode::clone(&script(ASK));
        code.settings.network = Some(hosts.to_vec());
        code.name = format!("ask{}", hosts.len());
        Arc::new(code)
    };
    let open = wanting(&[format!("localhost:{port}"), format!("127.0.0.1:{port}")]);
    let shut = wanting(&[]);
    let ask = async |code: &Arc<ScriptCode>, host: &str, plain: bool| {
        let report = bench.call(code, &json!({"url": format!("http://{host}:{port}/"), "plain": plain}).to_string()).await;
        value(&report).clone()
    };
    for plain in [true, false] {
        assert_eq!(ask(&open, "localhost", plain).await, json!("hello"), "{plain}");
        assert_eq!(ask(&open, "127.0.0.1", plain).await, json!("hello"), "{plain}");
        let shut = ask(&shut, "127.0.0.1", plain).await;
        assert!(shut.as_str().unwrap().contains("Network is unreachable"), "{shut}");
    }
    let other = ask(&open, "other.test", false).await;
    assert_eq!(other, json!([403, "other.test is not in the `network` list of the script"]));
    let other = ask(&open, "127.0.0.2", true).await;
    assert!(["closed", "reset", "refused"].iter().any(|word| other.as_str().unwrap().contains(word)), "{other}");
}

#[tokio::test]
async fn tunnels_and_other_languages_get_there_too() {
    if !machine_has_namespaces() {
        return;
    }
    let port = server().port();
    let bench = Bench::with(|config| {
        config.profile = Profile::Strict;
        config.hosts.allow = Some(vec!["localhost".to_owned()]);
    });
    let wanting = |code: Arc<ScriptCode>, host: String| {
        let mut code = ScriptCode::clone(&code);
        code.settings.network = Some(vec![host]);
        Arc::new(code)
    };
    // a pattern has no address in the cell: only the proxy leads there
    let tunnel = "import http.client\ndef main(port):\n    link = http.client.HTTPConnection('127.77.0.1', 3128, timeout=20)\n    link.set_tunnel('localhost', port)\n    link.request('GET', '/')\n    return link.getresponse().read().decode()\n";
    let args = json!({ "port": port }).to_string();
    let report = bench.call(&wanting(script(tunnel), "*".to_owned()), &args).await;
    assert_eq!(*value(&report), json!("hello"));
    let fetch = "export default async ({port}) => { const answer = await fetch(`http://localhost:${port}/`); return answer.text(); };\n";
    let report = bench.call(&wanting(script_in(Language::JavaScript, fetch), format!("localhost:{port}")), &args).await;
    assert_eq!(*value(&report), json!("hello"));
}

#[tokio::test]
async fn a_private_address_needs_the_operators_word() {
    if !machine_has_namespaces() {
        return;
    }
    let port = server().port();
    let bench = bench();
    let mut code = ScriptCode::clone(&script(ASK));
    code.settings.network = Some(vec!["*".to_owned()]);
    let report = bench.call(&Arc::new(code), &json!({"url": format!("http://[::ffff:127.0.0.1]:{port}/"), "plain": false}).to_string()).await;
    let said = value(&report)[1].as_str().unwrap().to_owned();
    assert!(said.contains("a private address: for a strict script VIAT_HTTP_ALLOW has to name it"), "{said}");
}
