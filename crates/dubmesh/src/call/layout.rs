//! JSON for people: the same text on several lines. Numbers stay as they are written, and members
//! in their order, which a tree of values would not promise.

/// Lays out JSON text that is known to be valid.
pub(super) fn pretty(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut rest = json;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'"' => {
                let (text, behind) = rest.split_at(string_len(rest));
                out.push(b'"');
                out.extend_from_slice(text);
                rest = behind;
            }
            b'{' | b'[' => {
                out.push(*byte);
                rest = rest.trim_ascii_start();
                // What is empty stays on its line.
                if let [end @ (b'}' | b']'), tail @ ..] = rest {
                    out.push(*end);
                    rest = tail;
                } else {
                    depth += 1;
                    break_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(*byte);
            }
            b',' => {
                out.push(b',');
                break_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            _ if byte.is_ascii_whitespace() => {}
            _ => out.push(*byte),
        }
    }
    out
}

/// The length of a string, its last quote included, whose first quote stands before `text`.
fn string_len(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let is_end = !escaped && *byte == b'"';
        escaped = !escaped && *byte == b'\\';
        is_end
    });
    end.map_or(text.len(), |end| end + 1)
}

fn break_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', 2 * depth));
}

#[cfg(test)]
mod tests {
    use super::pretty;

    #[test]
    fn breaks_lines_and_changes_nothing_else() {
        let text = r#" {"b": [1,2.50, 1e400],"a":{"q":"a \" , { }\\"}, "e":[ ],"o":{}} "#;
        let expected = r#"{
  "b": [
    1,
    2.50,
    1e400
  ],
  "a": {
    "q": "a \" , { }\\"
  },
  "e": [],
  "o": {}
}"#;
        assert_eq!(String::from_utf8(pretty(text.as_bytes())).unwrap(), expected);
        assert_eq!(pretty(b"42"), b"42");
        assert_eq!(pretty(br#""a b""#), br#""a b""#);
    }
}
