//! Properties of the order of paths: total, numbers by value, what lies inside an entry lies together.

use std::cmp::Ordering;

use proptest::prelude::*;
use viat_engine::path::Path;

fn paths() -> impl Strategy<Value = String> {
    let segment = "[a-c]{1,2}[0-9]{0,2}(\\[(0|[1-9][0-9]{0,2})\\]){0,1}";
    prop::collection::vec(segment, 0..4).prop_map(|segments| segments.join("."))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_is_total(a in paths(), b in paths(), c in paths()) {
        let [a, b, c] = [a, b, c].map(|text| Path::from(text.as_str()));
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b) == Ordering::Equal, a == b);
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
    }

    #[test]
    fn iterations_come_in_their_order(base in "[a-z][a-z0-9]{0,3}", rest in "(\\.[a-z]){0,1}", i in 0_usize..5_000, j in 0_usize..5_000) {
        let path = |index: usize| Path::from(format!("{base}[{index}]{rest}").as_str());
        prop_assert_eq!(path(i).cmp(&path(j)), i.cmp(&j));
    }

    #[test]
    fn what_lies_inside_an_entry_lies_together(mut all in prop::collection::vec(paths(), 1..60), outer in paths()) {
        all.extend(["x", "y[3].z"].map(|inner| if outer.is_empty() { inner.to_owned() } else { format!("{outer}.{inner}") }));
        let mut sorted: Vec<Path> = all.iter().map(|text| Path::from(text.as_str())).collect();
        sorted.sort();
        for prefix in [format!("{outer}."), format!("{outer}[")] {
            let inside: Vec<bool> = sorted.iter().map(|path| path.as_str().starts_with(&prefix)).collect();
            let runs = inside.windows(2).filter(|pair| pair[0] != pair[1]).count();
            prop_assert!(runs <= 2, "{prefix} is scattered in {sorted:?}");
        }
    }

    #[test]
    fn a_path_is_its_parent_and_its_last_segment(text in paths()) {
        let path = Path::from(text.as_str());
        if !text.is_empty() {
            prop_assert_eq!(path.parent().child(path.last()), path.clone());
        }
        let json = serde_json::to_string(&path).expect("JSON");
        prop_assert_eq!(serde_json::from_str::<Path>(&json).expect("a path"), path);
    }
}
