//! Which known word a misspelt one was meant to be.

/// A word is taken for a misspelt known one up to this many edits.
const MAX_TYPING_ERRORS: usize = 3;

/// Keys as other programs call them, and ours.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("address", "endpoints"),
    ("addresses", "endpoints"),
    ("servers", "endpoints"),
    ("url", "endpoints"),
    ("urls", "endpoints"),
    ("username", "user"),
    ("file", "path"),
    ("port", "listen"),
    ("type", "kind"),
];

/// The known key that `key` was probably meant to be.
pub(super) fn meant<'w>(key: &str, known: &[&'w str]) -> Option<&'w str> {
    let other = OTHER_NAMES.iter().find(|(other, _)| key.eq_ignore_ascii_case(other));
    let ours = other.and_then(|(_, ours)| known.iter().find(|known| *known == ours)).copied();
    ours.or_else(|| closest(key, known))
}

/// The known word that `word` was probably meant to be. Capital letters count as small ones.
pub(crate) fn closest<'w>(word: &str, known: &[&'w str]) -> Option<&'w str> {
    // A short word differs from every other one by few edits, so fewer are let pass.
    let word = word.to_lowercase();
    let len = word.chars().count();
    let max = MAX_TYPING_ERRORS.min(len.div_ceil(3));
    known
        .iter()
        // Each character more or less is an edit.
        .filter(|known| known.chars().count().abs_diff(len) <= max)
        .map(|known| (edits(&word, &known.to_lowercase()), *known))
        .filter(|(edits, _)| *edits <= max)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, known)| known)
}

/// How many characters have to be inserted, removed or replaced to get from `a` to `b`.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_word_is_corrected_only_if_it_is_close() {
        let known = ["http", "dubbo", "round-robin"];
        for (word, meant) in [
            ("htp", Some("http")),
            ("dubo", Some("dubbo")),
            ("roundrobin", Some("round-robin")),
            // One letter in three may be wrong.
            ("hxxp", Some("http")),
            ("hxxx", None),
            ("DUBBO", Some("dubbo")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(closest(word, &known), meant, "{word}");
        }
        let keys = ["endpoints", "user"];
        for (key, known) in
            [("address", "endpoints"), ("Username", "user"), ("endpont", "endpoints")]
        {
            assert_eq!(meant(key, &keys), Some(known));
        }
        assert_eq!(meant("address", &["listen"]), None);
        assert_eq!(closest("ab", &["abc", "ab"]), Some("ab"), "the closest one counts");
        assert_eq!([edits("", "abc"), edits("abc", "abd"), edits("abc", "bc")], [3, 1, 1]);
    }
}
