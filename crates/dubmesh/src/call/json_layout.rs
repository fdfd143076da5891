//! JSON for people: the same text on several lines, in colours where there are some. Numbers stay
//! as they are written, and members in their order, which a tree of values would not promise.

/// The sequences that colour a terminal, and the one that ends a colour.
const KEY: &[u8] = b"\x1b[34m";
const STRING: &[u8] = b"\x1b[32m";
const WORD: &[u8] = b"\x1b[36m";
const PLAIN: &[u8] = b"\x1b[0m";

/// Lays out JSON text that is known to be valid.
pub(super) fn pretty(json: &[u8], has_colour: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut rest = json;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        match byte {
            b'"' => {
                let (text, behind) = rest.split_at(string_len(rest));
                let is_key = behind.trim_ascii_start().starts_with(b":");
                let colour = if is_key { KEY } else { STRING };
                coloured(&mut out, has_colour.then_some(colour), &[b"\"", text].concat());
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
            _ => {
                let is_in_word = |b: &u8| b.is_ascii_alphanumeric() || b"+-.".contains(b);
                let len = rest.iter().take_while(|b| is_in_word(b)).count();
                let (text, behind) = rest.split_at(len);
                coloured(&mut out, has_colour.then_some(WORD), &[&[*byte], text].concat());
                rest = behind;
            }
        }
    }
    out
}

fn coloured(out: &mut Vec<u8>, colour: Option<&[u8]>, text: &[u8]) {
    out.extend_from_slice(colour.unwrap_or_default());
    out.extend_from_slice(text);
    out.extend_from_slice(colour.map_or(&[], |_| PLAIN));
}

/// The length of a string, its last quote included, whose first quote comes before `text`.
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
        assert_eq!(String::from_utf8(pretty(text.as_bytes(), false)).unwrap(), expected);
        assert_eq!(pretty(b"42", false), b"42");
        assert_eq!(pretty(br#""a b""#, false), br#""a b""#);
    }

    #[test]
    fn colours_are_all_that_they_add() {
        let text = r#"{"k":["v",-1.5e3,true,null,{}]}"#.as_bytes();
        let coloured = String::from_utf8(pretty(text, true)).unwrap();
        for part in ["\x1b[34m\"k\"\x1b[0m: ", "\x1b[32m\"v\"\x1b[0m", "\x1b[36m-1.5e3\x1b[0m"] {
            assert!(coloured.contains(part), "{coloured:?}");
        }
        let mut plain = coloured;
        for colour in ["\x1b[34m", "\x1b[32m", "\x1b[36m", "\x1b[0m"] {
            plain = plain.replace(colour, "");
        }
        assert_eq!(plain.into_bytes(), pretty(text, false));
    }
}
