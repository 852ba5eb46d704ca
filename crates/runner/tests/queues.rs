//! Who gets which worker: bounds, waits, fairness, caps, replacement, and that nothing leaks.

mod support;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use support::{Bench, call, lives, pool, script, until, value};
use tokio::sync::{mpsc, oneshot};
use viat_runner::script::{FaultKind, ScriptCode};

const PID: &str = "import os\ndef main():\n    return os.getpid()\n";

fn named(name: &str) -> Arc<ScriptCode> {
    Arc::new(ScriptCode { name: name.into(), ..(*script(PID)).clone() })
}

#[tokio::test]
async fn a_full_queue_refuses_and_a_long_wait_ends() {
    let bench = Bench::with(|config| config.pool = pool(1, 1, 200));
    let code = script(PID);
    let held = bench.pools.reserve(code.clone()).await.unwrap();
    let waiting = tokio::spawn({
        let (pools, code) = (bench.pools.clone(), code.clone());
        async move { pools.reserve(code).await }
    });
    until(|| bench.pools.status()[0].waiting == 1).await;
    let refused = bench.pools.reserve(code.clone()).await.unwrap_err();
    assert_eq!((refused.kind, refused.code.as_str()), (FaultKind::QueueFull, "queue_full"));
    let late = waiting.await.unwrap().unwrap_err();
    assert_eq!((late.kind, late.code.as_str()), (FaultKind::QueueWaitTimeout, "queue_wait_timeout"));
    drop(held);
    assert!(bench.pools.try_reserve(&code).is_some());
}

#[tokio::test]
async fn a_short_queue_wait_does_not_fail_a_cold_start() {
    let bench = Bench::with(|config| config.pool = pool(1, 0, 0));
    let code = script(PID);
    let held = bench.pools.reserve(code.clone()).await.unwrap();
    assert!(held.queued() > Duration::ZERO);
    assert_eq!(bench.pools.reserve(code).await.unwrap_err().kind, FaultKind::QueueFull);
}

#[tokio::test]
async fn attempts_are_served_in_the_order_of_asking() {
    let bench = Bench::with(|config| config.pool = pool(1, 100, 60_000));
    let code = script(PID);
    let held = bench.pools.reserve(code.clone()).await.unwrap();
    let (done, mut order) = mpsc::unbounded_channel();
    for n in 0..20 {
        let (pools, code, done) = (bench.pools.clone(), code.clone(), done.clone());
        tokio::spawn(async move {
            let _worker = pools.reserve(code).await.unwrap();
            done.send(n).unwrap();
        });
        until(|| bench.pools.status()[0].waiting == n + 1).await;
    }
    drop(held);
    for n in 0..20 {
        assert_eq!(order.recv().await, Some(n));
    }
}

#[tokio::test]
async fn workers_run_side_by_side_up_to_max() {
    let bench = Bench::with(|config| config.pool = pool(3, 100, 60_000));
    let code = script("import os, time\ndef main():\n    time.sleep(0.05)\n    return os.getpid()\n");
    let calls = (0..12).map(|_| {
        let (pools, code) = (bench.pools.clone(), code.clone());
        tokio::spawn(async move {
            let worker = pools.reserve(code).await.unwrap();
            let (_keep, stop) = oneshot::channel();
            worker.run(call("{}", None), stop, mpsc::unbounded_channel().0).await
        })
    });
    let mut pids = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        pids.push(value(&call.await.unwrap()).to_string());
    }
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), 3);
    assert_eq!(bench.pools.status()[0].idle, 3);
}

#[tokio::test]
async fn a_waiter_that_gives_up_costs_nobody_a_worker() {
    let bench = Bench::with(|config| config.pool = pool(1, 10, 60_000));
    let code = script(PID);
    let held = bench.pools.reserve(code.clone()).await.unwrap();
    let waiting = tokio::spawn({
        let (pools, code) = (bench.pools.clone(), code.clone());
        async move { pools.reserve(code).await }
    });
    until(|| bench.pools.status()[0].waiting == 1).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    drop(held);
    assert!(bench.pools.try_reserve(&code).is_some());
    assert!(bench.pools.try_reserve(&code).is_some(), "the first one came back");
}

#[tokio::test]
async fn an_idle_worker_that_dies_is_replaced_silently() {
    let bench = Bench::new();
    let code = script(PID);
    let pid = value(&bench.call(&code, "{}").await).to_string();
    let status = std::process::Command::new("kill").args(["-9", &pid]).status().unwrap();
    assert!(status.success());
    until(|| !lives(&pid)).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let next = bench.call(&code, "{}").await;
    assert_ne!(value(&next).to_string(), pid);
}

#[tokio::test]
async fn prewarming_makes_a_worker_ready() {
    let bench = Bench::new();
    let code = script(PID);
    assert!(bench.pools.try_reserve(&code).is_none());
    bench.pools.prewarm(&code);
    bench.pools.prewarm(&code);
    until(|| bench.pools.status()[0].starting == 1).await;
    while bench.pools.status()[0].idle == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(bench.pools.try_reserve(&code).is_some());
}

#[tokio::test]
async fn workers_are_recycled_without_a_cold_call() {
    let bench = Bench::with(|config| {
        config.pool = pool(1, 10, 60_000);
        config.pool.recycle_after = 5;
    });
    let code = script(PID);
    let mut pids: Vec<Value> = Vec::new();
    for _ in 0..60 {
        let report = bench.call(&code, "{}").await;
        pids.push(value(&report).clone());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    pids.dedup();
    assert!((3..=12).contains(&pids.len()), "{pids:?}");
    for pid in &pids[..pids.len() - 1] {
        until(|| !lives(&pid.to_string())).await;
    }
}

#[tokio::test]
async fn idle_workers_end_after_a_while() {
    let bench = Bench::with(|config| config.pool.idle_after = Duration::from_millis(100));
    let pid = value(&bench.call(&script(PID), "{}").await).to_string();
    until(|| !lives(&pid) && bench.pools.status().is_empty()).await;
    let again = bench.call(&script(PID), "{}").await;
    let pid = value(&again).to_string();
    until(|| !lives(&pid)).await;
}

#[tokio::test]
async fn min_workers_stay_and_are_replaced() {
    let bench = Bench::with(|config| config.pool.idle_after = Duration::from_millis(100));
    let code = script(PID);
    let mut settings = pool(4, 10, 60_000);
    (settings.min, settings.idle_after) = (2, Duration::from_millis(100));
    bench.pools.configure(&code, settings);
    let _ = bench.call(&code, "{}").await;
    until(|| bench.pools.status().first().is_some_and(|pool| pool.idle == 2)).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(bench.pools.status()[0].idle, 2);
}

#[tokio::test]
async fn at_the_cap_idle_workers_of_other_pools_make_room() {
    let bench = Bench::with(|config| config.max_workers = 2);
    for name in ["a", "b", "c", "d"] {
        let _ = bench.call(&named(name), "{}").await;
        let total: usize = bench.pools.status().iter().map(|pool| pool.idle + pool.busy + pool.starting).sum();
        assert!(total <= 2, "{:?}", bench.pools.status());
    }
    let (one, two) = (bench.pools.reserve(named("a")).await.unwrap(), bench.pools.reserve(named("b")).await.unwrap());
    let third = tokio::spawn({
        let pools = bench.pools.clone();
        async move { pools.reserve(named("c")).await }
    });
    until(|| bench.pools.status().iter().any(|pool| pool.waiting == 1)).await;
    drop(one);
    third.await.unwrap().unwrap();
    drop(two);
}

#[tokio::test]
async fn many_scripts_share_few_workers() {
    let bench = Bench::with(|config| config.max_workers = 2);
    let mut calls = Vec::new();
    for n in 0..90 {
        let (pools, code) = (bench.pools.clone(), named(&format!("s{}", n % 5)));
        calls.push(tokio::spawn(async move {
            let worker = pools.reserve(code).await.unwrap();
            let (_keep, stop) = oneshot::channel();
            worker.run(call("{}", None), stop, mpsc::unbounded_channel().0).await
        }));
    }
    for call in calls {
        assert!(value(&call.await.unwrap()).is_number());
    }
    let status = bench.pools.status();
    assert!(status.iter().all(|pool| pool.waiting + pool.starting + pool.busy == 0), "{status:?}");
    assert!(status.iter().map(|pool| pool.idle).sum::<usize>() <= 2);
}

#[tokio::test]
async fn workers_that_die_again_and_again_are_replaced() {
    let bench = Bench::new();
    let dies = script("import os\ndef main():\n    os._exit(1)\n");
    bench.pools.prewarm(&named("other"));
    for n in 0..60 {
        if n % 7 == 0 {
            bench.pools.prewarm(&dies);
        }
        let report = bench.call(&dies, "{}").await;
        support::fault(&report, FaultKind::ScriptBroken);
    }
}

#[tokio::test]
async fn thousands_of_calls_leak_nothing() {
    let bench = Bench::with(|config| config.pool.recycle_after = 500);
    let code = script("def main(n):\n    print(n)\n    return [n]\n");
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    let resident = || support::read("/proc/self/statm".as_ref()).split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4;
    for n in 0..100 {
        let _ = bench.call(&code, &json!({ "n": n }).to_string()).await;
    }
    let (fds, memory) = (count("/proc/self/fd"), resident());
    for n in 0..2000 {
        let report = bench.call(&code, &json!({ "n": n }).to_string()).await;
        assert_eq!((value(&report), report.log.text()), (&json!([n]), format!("{n}\n")));
    }
    until(|| bench.pools.status()[0].idle + bench.pools.status()[0].starting <= 2).await;
    assert!(resident() < memory + 8_000, "{memory} KiB became {}", resident());
    assert!(count("/proc/self/fd") <= fds + 60, "other tests of this process hold some");
    bench.pools.shutdown().await;
    assert_eq!(bench.pools.status().iter().map(|pool| pool.idle + pool.busy).sum::<usize>(), 0);
}

#[tokio::test]
async fn a_run_with_many_attempts_does_not_hold_up_the_others() {
    let bench = Bench::with(|config| config.pool = pool(1, 100, 60_000));
    let code = script(PID);
    let held = bench.pools.reserve(code.clone()).await.unwrap();
    let (done, mut order) = mpsc::unbounded_channel();
    let asked = ["big", "big", "big", "big", "small", "other", "small"];
    for (n, run) in asked.into_iter().enumerate() {
        let (pools, code, done) = (bench.pools.clone(), code.clone(), done.clone());
        tokio::spawn(async move {
            let _worker = pools.reserve_for(code, run).await.unwrap();
            done.send(run).unwrap();
        });
        until(|| bench.pools.status()[0].waiting == n + 1).await;
    }
    drop(held);
    let mut served = Vec::new();
    for _ in asked {
        served.push(order.recv().await.unwrap());
    }
    assert_eq!(served, ["big", "small", "other", "big", "small", "big", "big"]);
}

#[tokio::test]
async fn a_worker_that_grows_and_grows_is_replaced_and_a_cache_is_kept() {
    let bench = Bench::with(|config| {
        config.pool = pool(1, 10, 60_000);
        config.pool.recycle_growth = 8 << 20;
    });
    let leaks = script("import os\nkept = []\ndef main():\n    kept.append(b'x' * (1 << 20))\n    return os.getpid()\n");
    let caches = script("import os\nkept = []\ndef main():\n    kept or kept.append(b'x' * (32 << 20))\n    return os.getpid()\n");
    let pids = async |code: &Arc<ScriptCode>| {
        let mut pids: Vec<Value> = Vec::new();
        for _ in 0..100 {
            pids.push(value(&bench.call(code, "{}").await).clone());
        }
        pids.dedup();
        pids.len()
    };
    // A worn worker serves until its successor is there, and many calls fit into the time that takes.
    let mut rounds = 1;
    while pids(&leaks).await == 1 {
        rounds += 1;
        assert!(rounds <= 5, "a worker that holds {rounds} times 100 MiB is kept");
    }
    assert_eq!(pids(&caches).await, 1);
    let status = bench.pools.status();
    assert_eq!(status.iter().map(|pool| pool.served).sum::<u64>(), (rounds + 1) * 100, "{status:?}");
    until(|| bench.pools.status().iter().any(|pool| pool.recycled > 0 && pool.started > 1)).await;
}

#[tokio::test]
async fn an_overload_refuses_exactly_what_is_over_the_bound() {
    let bench = Bench::with(|config| config.pool = pool(4, 100, 60_000));
    let code = script("import time\ndef main():\n    time.sleep(0.02)\n    return 1\n");
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(bench.pools.reserve(code.clone()).await.unwrap());
    }
    let (done, mut ends) = mpsc::unbounded_channel();
    for n in 0..2000 {
        let (pools, code, done) = (bench.pools.clone(), code.clone(), done.clone());
        tokio::spawn(async move {
            let end = pools.reserve_for(code, &format!("run-{}", n % 7)).await.map(drop).map_err(|fault| fault.kind);
            done.send(end).unwrap();
        });
    }
    for _ in 0..1900 {
        assert_eq!(ends.recv().await, Some(Err(FaultKind::QueueFull)));
    }
    drop(held);
    for _ in 0..100 {
        assert_eq!(ends.recv().await, Some(Ok(())));
    }
    assert_eq!(bench.pools.status()[0].waiting, 0);
}
