//! The table of durations, and what must hold for every spelling.

use proptest::prelude::*;
use viat_dialect::duration::{Duration, from_json, parse};

#[test]
fn the_table() {
    for (text, ms) in [
        ("PT5S", 5_000),
        ("PT1M", 60_000),
        ("PT1H", 3_600_000),
        ("P1D", 86_400_000),
        ("PT0.5S", 500),
        ("PT0,5S", 500),
        ("5000", 5_000),
        ("0", 0),
        ("PT0S", 0),
        ("PT", 0),
        ("P1W", 604_800_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT0.0009S", 0),
        ("PT1.9999S", 1_999),
        ("PT1.5H", 5_400_000),
        ("P0.5D", 43_200_000),
        ("P1W1D", 691_200_000),
        ("PT36H", 129_600_000),
        ("PT00S", 0),
        ("PT0.00000000000000000000000000001H", 0),
    ] {
        assert_eq!(parse(text), Ok(Duration::Millis(ms)), "{text}");
    }
    assert_eq!(parse(""), Ok(Duration::NotGiven));
    for text in [
        "P",
        "-1",
        "-PT5S",
        "PT-5S",
        "+5",
        " 5",
        "5 ",
        "5s",
        "1h 30m",
        "pt5s",
        "PT5s",
        "PT5X",
        "P1Y",
        "P1M",
        "P1Y2M",
        "PT5",
        "P5",
        "PT1S1M",
        "PT1M1M",
        "P1D1W",
        "PT.5S",
        "PT5.S",
        "PT1.5H30M",
        "P0.5DT1H",
        "P1DT",
        "PT1.2.3S",
        "1.5",
        "1e3",
        "inf",
        "nan",
        "soon",
        "99999999999999999999",
        "P99999999999999999999D",
        "P999999999999999W",
        "5s5",
        "T5S",
        "PTS",
        "P1H",
        "PT1D",
        "٥",
        "PT٥S",
        "PT 5S",
        "0x10",
    ] {
        let error = parse(text).unwrap_err();
        assert!(!error.reason.is_empty() && error.to_string().contains("is not a duration"), "{text}");
    }
    assert_eq!(from_json(&serde_json::json!(null)), Ok(Duration::NotGiven));
    assert_eq!(from_json(&serde_json::json!(5)), Ok(Duration::Millis(5)));
    for value in [serde_json::json!(-5), serde_json::json!(5.0), serde_json::json!([5]), serde_json::json!({}), serde_json::json!(true)] {
        assert!(from_json(&value).is_err(), "{value}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_count_of_components_adds_up(w in 0u64..100, d in 0u64..100, h in 0u64..100, m in 0u64..1000, s in 0u64..1000, f in 0u64..1000) {
        let text = format!("P{w}W{d}DT{h}H{m}M{s}.{f:03}S");
        let ms = w * 604_800_000 + d * 86_400_000 + h * 3_600_000 + m * 60_000 + s * 1_000 + f;
        prop_assert_eq!(parse(&text), Ok(Duration::Millis(ms)));
        prop_assert_eq!(parse(&ms.to_string()), Ok(Duration::Millis(ms)));
    }

    #[test]
    fn anything_at_all_is_an_answer(text in "[PTWDHMSY0-9.,+ -]{0,20}") {
        let _ = parse(&text);
    }
}
