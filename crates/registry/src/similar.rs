//! Which interface was probably meant by a name that nobody offers. Pure.

/// A list of more interfaces is not searched: each one is looked at.
const MAX_SEARCHED: usize = 1000;

/// So many names are told.
const MAX_TOLD: usize = 3;

/// Below this length, names that differ in one letter are different names.
const MIN_SPELT_LEN: usize = 8;

/// Shorter simple names are everywhere.
const MIN_SIMPLE_LEN: usize = 3;

/// The names that `wanted` may be a mistake for, in their order.
pub(crate) fn similar_names<'a>(
    wanted: &str,
    names: impl ExactSizeIterator<Item = &'a str>,
) -> Vec<&'a str> {
    if MAX_SEARCHED < names.len() {
        return Vec::new();
    }
    let mut similar: Vec<&str> = names.filter(|name| is_similar(wanted, name)).collect();
    similar.sort_unstable();
    similar.truncate(MAX_TOLD);
    similar
}

/// Whether two names differ in capital letters alone, in the package alone, or in one letter. It
/// looks at each letter once.
#[must_use]
pub fn is_similar(wanted: &str, name: &str) -> bool {
    let simple = |name: &str| name.rfind('.').map_or(0, |dot| dot + 1);
    let (a, b) = (&wanted[simple(wanted)..], &name[simple(name)..]);
    let has_simple_name = MIN_SIMPLE_LEN <= a.len() && a.eq_ignore_ascii_case(b);
    wanted != name
        && (has_simple_name
            || wanted.eq_ignore_ascii_case(name)
            || MIN_SPELT_LEN <= wanted.len() && is_one_slip(wanted.as_bytes(), name.as_bytes()))
}

/// Whether one letter was left out, added, or mistaken, or two were swapped.
fn is_one_slip(a: &[u8], b: &[u8]) -> bool {
    let same = |(a, b): &(&u8, &u8)| a.eq_ignore_ascii_case(b);
    let n_before = a.iter().zip(b).take_while(same).count();
    let (a, b) = (&a[n_before..], &b[n_before..]);
    let n_after = a.iter().rev().zip(b.iter().rev()).take_while(same).count();
    match (&a[..a.len() - n_after], &b[..b.len() - n_after]) {
        ([_], [] | [_]) | ([], [_]) => true,
        ([first, second], b) => b == [*second, *first],
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_or_another_package_is_found() {
        const ORDERS: &str = "com.acme.Orders";
        for wanted in [
            "com.acme.orders",
            "COM.ACME.ORDERS",
            "Orders",
            "orders",
            "org.acme.Orders",
            "com.acme.Order",
            "com.acme.Orderss",
            "com.acme.Ordrs",
            "com.acme.Ordesr",
            "com.acne.Orders",
        ] {
            assert!(is_similar(wanted, ORDERS), "{wanted}");
        }
        for wanted in [ORDERS, "com.acme.Users", "com.acme.Ord", "", ".", "com.acme.", "Snörders"]
        {
            assert!(!is_similar(wanted, ORDERS), "{wanted}");
        }
        assert!(!is_similar("a.B", "a.C") && !is_similar("a.B", "b.B"), "too short to tell");
    }

    #[test]
    fn a_few_names_are_told_and_a_long_list_is_not_searched() {
        let names: Vec<String> = (0..MAX_SEARCHED).map(|n| format!("p{n}.Orders")).collect();
        let told = similar_names("a.Orders", names.iter().map(String::as_str));
        assert_eq!(told, ["p0.Orders", "p1.Orders", "p10.Orders"]);
        let more: Vec<&str> = names.iter().map(String::as_str).chain(["x.Y"]).collect();
        assert_eq!(similar_names("a.Orders", more.into_iter()), [""; 0]);
    }
}
