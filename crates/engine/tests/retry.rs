//! Properties of whole sequences of retry waits, and of the decision about each failure.

use proptest::prelude::*;
use viat_engine::policies::class::Class;
use viat_engine::policies::retry::{DEADLINE_SLACK_MS, Decision, Matcher, RETRY_AFTER_CAP_MS, Reason, RetryRule, Situation, decide};

fn rules() -> impl Strategy<Value = RetryRule> {
    (1_u32..=10, 10_u64..=60_000, 1.0_f64..=10.0, any::<bool>()).prop_flat_map(|(times, initial_ms, factor, jitter)| {
        (initial_ms..=60_000).prop_map(move |max_ms| RetryRule { matches: Matcher::Retryable, times, initial_ms, factor, max_ms, jitter })
    })
}

fn situations() -> impl Strategy<Value = Situation> {
    let class = prop::sample::select(Class::ALL.to_vec());
    (class, 1_u32..=12, prop::option::of(0_u64..=200_000), prop::option::of(0_u64..=200_000), 0.0_f64..1.0, any::<bool>()).prop_map(
        |(class, attempt, remaining_ms, retry_after_ms, draw, cancelled)| Situation {
            class,
            attempt,
            used: attempt - 1,
            remaining_ms,
            retry_after_ms,
            draw,
            cancelled,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bases_grow_from_the_floor_to_the_cap(rule in rules()) {
        let bases: Vec<f64> = (1..=rule.times).map(|n| rule.base_ms(n)).collect();
        prop_assert_eq!(bases[0], rule.initial_ms as f64);
        for pair in bases.windows(2) {
            prop_assert!(pair[0] <= pair[1], "{:?}", bases);
        }
        for base in bases {
            prop_assert!(base >= rule.initial_ms as f64 && base <= rule.max_ms as f64, "{base}");
        }
    }

    #[test]
    fn every_base_is_the_formulas(rule in rules(), n in 1_u32..=10) {
        let grown = (1..n).fold(rule.initial_ms as f64, |base, _| base * rule.factor);
        let expected = grown.min(rule.max_ms as f64).max(rule.initial_ms as f64);
        prop_assert!((rule.base_ms(n) - expected).abs() <= expected * 1e-9);
    }

    #[test]
    fn waits_stay_in_the_band(rule in rules(), n in 1_u32..=10, draw in 0.0_f64..1.0) {
        let (base, wait) = (rule.base_ms(n), rule.wait_ms(n, draw) as f64);
        let (low, high) = if rule.jitter { (0.75 * base, 1.25 * base) } else { (base, base) };
        prop_assert!(wait >= (low + 0.5).floor() && wait <= (high + 0.5).floor(), "{wait} of {base}");
    }

    #[test]
    fn nothing_overflows(factor in 1.0_f64..=10.0, n in any::<u32>(), draw in 0.0_f64..1.0) {
        let rule = RetryRule { matches: Matcher::Any, times: u32::MAX, initial_ms: 10, factor, max_ms: 60_000, jitter: true };
        prop_assert!(rule.wait_ms(n, draw) <= 75_000);
    }

    #[test]
    fn a_retry_is_taken_only_if_everything_allows_it(rule in rules(), situation in situations()) {
        let decision = decide(std::slice::from_ref(&rule), situation);
        let asked = situation.retry_after_ms.unwrap_or(0).min(RETRY_AFTER_CAP_MS);
        let wait = rule.wait_ms(situation.attempt, situation.draw).max(asked);
        let fits = situation.remaining_ms.is_none_or(|remaining| wait + DEADLINE_SLACK_MS <= remaining);
        let expected = if situation.cancelled {
            Err(Reason::Cancelled)
        } else if !situation.class.is_retryable() {
            Err(Reason::NotRetryable)
        } else if situation.attempt > rule.times {
            Err(Reason::Exhausted)
        } else if !fits {
            Err(Reason::WouldOverrunDeadline)
        } else {
            Ok(wait)
        };
        prop_assert_eq!(decision.retry_wait_ms().ok_or(decision.reason()), expected.map_err(Some));
        let text = serde_json::to_string(&decision).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<Decision>(&text).expect("a decision"), decision);
    }

    #[test]
    fn without_a_rule_nothing_is_retried(situation in situations()) {
        let expected = match (situation.cancelled, situation.class.is_retryable()) {
            (true, _) => Reason::Cancelled,
            (false, true) => Reason::NoRetryConfigured,
            (false, false) => Reason::NotRetryable,
        };
        prop_assert_eq!(decide(&[], situation), Decision::stop(expected));
    }
}

#[test]
fn the_specifications_example_waits_100_200_400() {
    let rule = RetryRule { matches: Matcher::Retryable, times: 3, initial_ms: 100, factor: 2.0, max_ms: 5_000, jitter: false };
    assert_eq!([1, 2, 3].map(|n| rule.wait_ms(n, 0.9)), [100, 200, 400]);
}

#[test]
fn half_a_millisecond_rounds_up() {
    let rule = RetryRule { matches: Matcher::Retryable, times: 2, initial_ms: 11, factor: 1.5, max_ms: 60_000, jitter: false };
    assert_eq!(rule.wait_ms(2, 0.0), 17, "16.5 rounds up");
    let jittered = RetryRule { jitter: true, initial_ms: 10, max_ms: 10, ..rule };
    assert_eq!(jittered.wait_ms(1, 0.0), 8, "7.5 rounds up");
}

#[test]
fn ten_milliseconds_are_the_slack() {
    let rule = [RetryRule { matches: Matcher::Retryable, times: 1, initial_ms: 100, factor: 1.0, max_ms: 100, jitter: false }];
    let situation = Situation { class: Class::Transport, attempt: 1, used: 0, remaining_ms: Some(110), retry_after_ms: None, draw: 0.5, cancelled: false };
    assert_eq!(decide(&rule, situation).retry_wait_ms(), Some(100));
    let short = decide(&rule, Situation { remaining_ms: Some(109), ..situation });
    assert_eq!(short.reason(), Some(Reason::WouldOverrunDeadline));
}
