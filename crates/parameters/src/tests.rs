//! Parameters, compared with a map of strings.

use proptest::prelude::*;

use super::*;

#[test]
fn names_come_in_their_order_and_the_last_value_holds() {
    let pairs = [("b", "1"), ("", "nameless"), ("é", "ü"), ("a", ""), ("b", "2"), ("ab", "x&y=z")];
    let parameters = Parameters::from(pairs);
    let all: Vec<_> = parameters.iter().collect();
    assert_eq!(all, [("", "nameless"), ("a", ""), ("ab", "x&y=z"), ("b", "2"), ("é", "ü")]);
    assert_eq!(parameters.get("a"), Some(""));
    assert_eq!(parameters.get("é"), Some("ü"));
    assert_eq!((parameters.get("c"), parameters.get("A")), (None, None));
    assert_eq!((parameters.len(), parameters.is_empty()), (5, false));
    let json = r#"{"":"nameless","a":"","ab":"x&y=z","b":"2","é":"ü"}"#;
    assert_eq!(serde_json::to_string(&parameters).unwrap(), json);
    let debug = r#"{"": "nameless", "a": "", "ab": "x&y=z", "b": "2", "é": "ü"}"#;
    assert_eq!(format!("{parameters:?}"), debug);
}

#[test]
fn none_are_none() {
    let none = Parameters::default();
    assert!(none.is_empty() && none.iter().next().is_none() && none.get("").is_none());
    assert_eq!((none.len(), format!("{none:?}").as_str()), (0, "{}"));
    assert_eq!(none, Parameters::from([("a", "1")]).without("a"));
    assert_eq!(serde_json::to_string(&none).unwrap(), "{}");
}

#[test]
fn copies_share_their_memory_and_equal_ones_need_not() {
    let [one, other] = [(); 2].map(|()| Parameters::from([("a", "1")]));
    assert!(one.is_shared_with(&one.clone()) && one.is_shared_with(&one.without("b")));
    assert!(one == other && !one.is_shared_with(&other));
    assert_ne!(one, one.with("a", "2"));
}

/// One allocation holds the texts, and two offsets for each pair.
#[test]
fn takes_no_more_than_its_texts_and_where_they_begin() {
    let pairs = (0..25).map(|n| (format!("name-{n:02}"), "a value"));
    assert_eq!(Parameters::from_iter(pairs).0.len(), 25 * (7 + 7 + 2 * OFFSET_LEN));
}

proptest! {
    /// Whatever is done with a map of strings has the same outcome here.
    #[test]
    fn does_what_a_map_does(
        pairs in prop::collection::vec(("[a-dé]{0,3}", "\\PC{0,5}"), 0..40),
        (name, value) in ("[a-dé]{0,3}", "\\PC{0,5}"),
    ) {
        let map: BTreeMap<String, String> = pairs.iter().cloned().collect();
        let parameters: Parameters = pairs.iter().map(|(name, value)| (name, value)).collect();
        let is_same = |parameters: &Parameters, map: &BTreeMap<String, String>| {
            let all = map.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            parameters.iter().eq(all)
                && parameters.len() == map.len()
                && parameters.is_empty() == map.is_empty()
                && parameters.to_map() == *map
                && *parameters == Parameters::from_iter(map)
        };
        prop_assert!(is_same(&parameters, &map));
        for name in map.keys().chain([&name]) {
            prop_assert_eq!(parameters.get(name), map.get(name).map(String::as_str));
            prop_assert_eq!(parameters.contains(name), map.contains_key(name));
        }
        let mut changed = map.clone();
        changed.remove(&name);
        prop_assert!(is_same(&parameters.without(&name), &changed));
        changed.insert(name.clone(), value.clone());
        prop_assert!(is_same(&parameters.with(&name, &value), &changed));
        prop_assert_eq!(parameters == parameters.with(&name, &value), map == changed);
    }
}
