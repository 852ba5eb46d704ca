//! `http` scripts against a server of our own: values, failures by their causes, redirects, bounds, hosts.

#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use support::{Bench, fault, script_in, until, value};
use viat_runner::script::http::{Hosts, Template};
use viat_runner::script::{FaultKind, Language, Outcome, ScriptCode};

/// Answers by path, and keeps what was asked.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

fn serve() -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = Arc::clone(&kept);
            std::thread::spawn(move || while answer(&stream, port, &kept).is_some() {});
        }
    });
    Server { port, asked }
}

fn answer(mut stream: &TcpStream, port: u16, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (line, text) = (head.lines().next()?.to_owned(), format!("{head}{}", String::from_utf8_lossy(&body)));
    asked.lock().unwrap().push(text.clone());
    let path = line.split(' ').nth(1)?.split('?').next()?.to_owned();
    let reply = |status: &str, headers: &str, body: &str| format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len());
    let sent = match path.as_str() {
        "/json" => reply("200 OK", "content-type: application/json\r\n", r#"{"ü":[1,2.5,"🙂"]}"#),
        "/text" => reply("201 Created", "content-type: text/plain\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n", "hello"),
        "/empty" => reply("204 No Content", "", ""),
        "/bad-json" => reply("200 OK", "content-type: application/json\r\n", "{oops"),
        "/bytes" => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\u{e9}".to_owned(),
        "/busy" => reply("503 Service Unavailable", "retry-after: 2\r\n", "later"),
        "/gone" => reply("410 Gone", "content-type: application/json\r\n", r#"{"why":"sold"}"#),
        "/loop" => reply("302 Found", "location: /loop\r\n", ""),
        "/once" => reply("303 See Other", "location: /json\r\n", ""),
        "/away" => reply("307 Temporary Redirect", &format!("location: http://localhost:{port}/json\r\n"), ""),
        "/metadata" => reply("302 Found", "location: http://169.254.169.254/latest\r\n", ""),
        "/broken" => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_owned(),
        "/big" => reply("200 OK", "content-type: text/plain\r\n", &"z".repeat(300_000)),
        "/slow" => {
            std::thread::sleep(Duration::from_secs(30));
            return None;
        }
        _ => reply("404 Not Found", "", "no"),
    };
    stream.write_all(sent.as_bytes()).ok()?;
    (path != "/broken").then_some(())
}

fn request(document: Value) -> Arc<ScriptCode> {
    let template = Template::parse(&document, &|value| Ok(value.as_u64())).unwrap();
    script_in(Language::Http, &serde_json::to_string(&template).unwrap())
}

impl Server {
    fn get(&self, path: &str) -> Arc<ScriptCode> {
        self.get_with(path, json!({}))
    }

    fn get_with(&self, path: &str, more: Value) -> Arc<ScriptCode> {
        let mut document = json!({"url": format!("http://127.0.0.1:{}{path}", self.port)});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request(document)
    }
}

#[tokio::test]
async fn a_response_becomes_a_value() {
    let (bench, server) = (Bench::new(), serve());
    for (path, more, expected) in [
        ("/json", json!({}), json!({"ü": [1, 2.5, "🙂"]})),
        ("/text", json!({}), json!("hello")),
        ("/empty", json!({}), Value::Null),
        ("/text", json!({"value": "status"}), json!(201)),
        ("/gone", json!({"expect": [410]}), json!({"why": "sold"})),
        ("/once", json!({"method": "POST", "body": "x"}), json!({"ü": [1, 2.5, "🙂"]})),
    ] {
        assert_eq!(value(&bench.call(&server.get_with(path, more), "{}").await), &expected, "{path}");
    }
    let report = bench.call(&server.get_with("/text", json!({"value": "headers"})), "{}").await;
    assert_eq!(value(&report)["set-cookie"], json!(["a=1", "b=2"]));
    assert!(report.log.text().contains("/text: 201 in "), "{}", report.log.text());
}

#[tokio::test]
async fn the_request_is_what_the_template_says() {
    let (bench, server) = (Bench::new(), serve());
    let code = request(json!({
        "method": "POST", "url": format!("http://127.0.0.1:{}/${{args.where}}", server.port), "query": {"q": "$args.q"},
        "headers": {"X-Token": "t ${args.q}"}, "body": {"whole": "$args.list"},
    }));
    let report = bench.call(&code, r#"{"where":"json","q":"a&b","list":[1,{"x":null}]}"#).await;
    value(&report);
    let asked = server.asked.lock().unwrap().join("");
    assert!(asked.starts_with("POST /json?q=a%26b HTTP/1.1\r\n"), "{asked}");
    for part in ["x-token: t a&b\r\n", "idempotency-key: key\r\n", "content-type: application/json\r\n", "\r\n\r\n{\"whole\":[1,{\"x\":null}]}"] {
        assert!(asked.contains(part), "{part:?} in {asked}");
    }
    let misfit = bench.call(&code, r#"{"where":"json"}"#).await;
    assert!(fault(&misfit, FaultKind::Annotation).message.contains("`args.q`: no such argument"));
}

#[tokio::test]
async fn each_failure_has_its_class() {
    let (bench, server) = (Bench::new(), serve());
    let report = bench.call(&server.get("/gone"), "{}").await;
    let unexpected = fault(&report, FaultKind::Exception);
    assert_eq!(unexpected.code, "http_410");
    let extra = unexpected.extra.as_ref().unwrap();
    assert_eq!((&extra["status"], &extra["body"]), (&json!(410), &json!({"why": "sold"})));
    let report = bench.call(&server.get("/busy"), "{}").await;
    assert_eq!(fault(&report, FaultKind::Exception).code, "http_503", "a status alone is no reason to try again");
    let report = bench.call(&server.get_with("/busy", json!({"transient_statuses": [503]})), "{}").await;
    assert_eq!(fault(&report, FaultKind::Transport).retry_after_ms, Some(2000));
    fault(&bench.call(&server.get("/broken"), "{}").await, FaultKind::Transport);
    fault(&bench.call(&server.get("/bad-json"), "{}").await, FaultKind::InvalidOutput);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fault(&bench.call(&request(json!({"url": format!("http://127.0.0.1:{closed}/")})), "{}").await, FaultKind::Transport);
    fault(&bench.call(&request(json!({"url": format!("https://127.0.0.1:{}/", server.port)})), "{}").await, FaultKind::Transport);
    fault(&bench.call(&request(json!({"url": "http://surely-missing.invalid/"})), "{}").await, FaultKind::Transport);
    fault(&bench.call(&server.get_with("/slow", json!({"timeout": 200})), "{}").await, FaultKind::Timeout);
    fault(&bench.call_within(&server.get("/slow"), "{}", Some(Duration::from_millis(300))).await, FaultKind::Timeout);
}

#[tokio::test]
async fn redirects_and_sizes_are_bounded() {
    let (bench, server) = (Bench::with(|config| config.value_limit = 200_000), serve());
    let report = bench.call(&server.get("/loop"), "{}").await;
    assert_eq!(fault(&report, FaultKind::Exception).code, "too_many_redirects");
    assert_eq!(server.asked.lock().unwrap().len(), 6);
    let report = bench.call(&server.get("/big"), "{}").await;
    assert!(fault(&report, FaultKind::InvalidOutput).message.contains("more than 200000 bytes"));
    let report = bench.call(&server.get_with("/text", json!({"max_bytes": 3})), "{}").await;
    assert!(fault(&report, FaultKind::InvalidOutput).message.contains("more than 3 bytes"));
}

#[tokio::test]
async fn a_secret_header_is_not_told_to_another_host() {
    let (bench, server) = (Bench::new(), serve());
    value(&bench.call(&server.get_with("/away", json!({"headers": {"X-Token": "secret"}})), "{}").await);
    let asked = server.asked.lock().unwrap().clone();
    assert_eq!(asked.iter().map(|one| one.contains("secret")).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn hosts_are_held_to_the_lists() {
    let server = serve();
    let denied = |code: Arc<ScriptCode>, hosts: Hosts| async move {
        let bench = Bench::with(|config| config.hosts = hosts);
        let report = bench.call(&code, "{}").await;
        let refused = fault(&report, FaultKind::Exception);
        assert_eq!(refused.code, "host_not_allowed", "{}", refused.message);
    };
    denied(server.get("/json"), Hosts::from_lists(None, Some("private"))).await;
    denied(request(json!({"url": format!("http://localhost:{}/json", server.port)})), Hosts::from_lists(None, Some("private"))).await;
    denied(server.get("/json"), Hosts::from_lists(Some("example.com"), None)).await;
    denied(server.get("/metadata"), Hosts::default()).await;
    let mut declared = (*server.get("/json")).clone();
    declared.settings.network = Some(vec!["api.example.com".to_owned()]);
    denied(Arc::new(declared), Hosts::default()).await;
}

#[tokio::test]
async fn a_request_is_given_up_when_the_attempt_is_stopped() {
    let (bench, server) = (Bench::new(), serve());
    let code = server.get("/slow");
    let asked = || !server.asked.lock().unwrap().is_empty();
    let report = bench.call_stopped(&code, "{}", Duration::from_secs(20), asked).await;
    assert_eq!(report.outcome, Outcome::Stopped);
    assert!(report.late.is_some_and(|late| late.contains("given up")), "it ended by itself");
    assert!(bench.pools.try_reserve(&code).is_some(), "the worker is kept");
}

#[tokio::test]
async fn many_requests_use_one_connection_and_one_worker() {
    let (bench, server) = (Bench::new(), serve());
    let code = server.get("/json");
    for _ in 0..200 {
        value(&bench.call(&code, "{}").await);
    }
    assert_eq!(server.asked.lock().unwrap().len(), 200);
    bench.pools.shutdown().await;
    until(|| std::fs::read_dir(bench.path("scratch")).is_ok_and(|mut entries| entries.next().is_none())).await;
}
