//! Parameter descriptors: the JVM's short form of a method's parameter types, one after another
//! without separators, such as `Ljava/lang/String;I[J` for `(String, int, long[])`.

use memchr::memchr;

use crate::ProtoError;

/// Java allows no more parameters than this.
pub const MAX_PARAMETERS: usize = 255;

/// Java allows no more dimensions of an array than this.
const MAX_DIMENSIONS: usize = 255;

/// The types of a descriptor one by one, each as its own descriptor.
///
/// After an error the iterator is finished.
///
/// # Errors
/// A part is [`ProtoError::Descriptor`] when it cannot be read.
///
/// ```
/// use dubbo_proto::descriptor;
///
/// let types: Result<Vec<_>, _> = descriptor::split("Ljava/lang/String;I[J").collect();
/// assert_eq!(types.unwrap(), ["Ljava/lang/String;", "I", "[J"]);
/// ```
pub fn split(descriptor: &str) -> impl Iterator<Item = Result<&str, ProtoError>> {
    Split { whole: descriptor, offset: 0 }
}

/// How many parameters a descriptor names.
///
/// # Errors
/// [`ProtoError::Descriptor`] when it cannot be read, [`ProtoError::TooMany`] over
/// [`MAX_PARAMETERS`].
pub fn count(descriptor: &str) -> Result<usize, ProtoError> {
    let mut n_params = 0;
    for part in split(descriptor) {
        part?;
        n_params += 1;
        if n_params > MAX_PARAMETERS {
            let (count, max) = (n_params, MAX_PARAMETERS);
            return Err(ProtoError::TooMany { what: "parameters", count, max });
        }
    }
    Ok(n_params)
}

/// Turns a type's Java name into its descriptor: `java.lang.String[]` into `[Ljava/lang/String;`.
///
/// A name that is a descriptor already (`I`, `[J`, `Ljava/util/List;`) stays as it is; type
/// arguments (`java.util.List<String>`) are dropped, as Java erases them.
///
/// # Errors
/// [`ProtoError::Descriptor`] when it is neither.
pub fn from_java_name(name: &str) -> Result<String, ProtoError> {
    let name = name.trim();
    if let Some(Ok(whole)) = split(name).next()
        && whole == name
    {
        return Ok(name.to_owned());
    }
    let mut element = name;
    let mut out = String::new();
    while let Some(shorter) = element.strip_suffix("[]") {
        element = shorter.trim_end();
        out.push('[');
        if out.len() > MAX_DIMENSIONS {
            return Err(ProtoError::Descriptor { offset: 0, rule: "too many dimensions" });
        }
    }
    let element = element.split_once('<').map_or(element, |(erased, _)| erased).trim_end();
    match primitive(element) {
        Some(letter) => out.push(letter),
        None => {
            check_class_name(element, b'.', 0)?;
            out.push('L');
            out.push_str(&element.replace('.', "/"));
            out.push(';');
        }
    }
    Ok(out)
}

fn primitive(name: &str) -> Option<char> {
    Some(match name {
        "boolean" => 'Z',
        "byte" => 'B',
        "char" => 'C',
        "short" => 'S',
        "int" => 'I',
        "long" => 'J',
        "float" => 'F',
        "double" => 'D',
        _ => return None,
    })
}

fn check_class_name(name: &str, separator: u8, offset: usize) -> Result<(), ProtoError> {
    // Every request comes through here, so it is one pass over bytes. Those of other scripts'
    // letters pass, as they do in Java.
    let mut is_part_empty = true;
    for byte in name.bytes() {
        let is_letter =
            byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-') || !byte.is_ascii();
        if !is_letter && (byte != separator || is_part_empty) {
            return Err(ProtoError::Descriptor { offset, rule: "not a class name" });
        }
        is_part_empty = !is_letter;
    }
    if is_part_empty {
        return Err(ProtoError::Descriptor { offset, rule: "not a class name" });
    }
    Ok(())
}

struct Split<'a> {
    whole: &'a str,
    offset: usize,
}

impl<'a> Split<'a> {
    fn next_len(rest: &str, offset: usize) -> Result<usize, ProtoError> {
        let n_dims = rest.bytes().take_while(|b| *b == b'[').count();
        if n_dims > MAX_DIMENSIONS {
            return Err(ProtoError::Descriptor { offset, rule: "too many dimensions" });
        }
        let at = offset + n_dims;
        let element = rest.get(n_dims..).unwrap_or_default();
        match element.bytes().next() {
            Some(b'Z' | b'B' | b'C' | b'S' | b'I' | b'J' | b'F' | b'D') => Ok(n_dims + 1),
            Some(b'L') => {
                let end = memchr(b';', element.as_bytes());
                let Some(name) = end.and_then(|end| element.get(1..end)) else {
                    return Err(ProtoError::Descriptor { offset: at, rule: "no ; after a class" });
                };
                check_class_name(name, b'/', at)?;
                Ok(n_dims + name.len() + 2)
            }
            Some(_) => Err(ProtoError::Descriptor { offset: at, rule: "unknown type letter" }),
            None => Err(ProtoError::Descriptor { offset: at, rule: "ends after [" }),
        }
    }
}

impl<'a> Iterator for Split<'a> {
    type Item = Result<&'a str, ProtoError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.whole.get(self.offset..).filter(|rest| !rest.is_empty())?;
        match Self::next_len(rest, self.offset) {
            Ok(len) => {
                self.offset += len;
                rest.get(..len).map(Ok)
            }
            Err(error) => {
                self.offset = self.whole.len();
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_parameters() {
        assert_eq!(count(""), Ok(0));
        assert_eq!(count("Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;"), Ok(3));
        assert_eq!(count("ZBCSIJFD[[I"), Ok(9));
        assert_eq!(count(&"I".repeat(255)), Ok(255));
        let error = ProtoError::TooMany { what: "parameters", count: 256, max: 255 };
        assert_eq!(count(&"I".repeat(256)), Err(error));
    }

    #[test]
    fn names_what_is_wrong() {
        let cases = [
            ("IX", 1, "unknown type letter"),
            ("V", 0, "unknown type letter"),
            ("I[", 2, "ends after ["),
            ("Ljava/lang/String", 0, "no ; after a class"),
            ("ILjava//String;", 1, "not a class name"),
            ("L;", 0, "not a class name"),
        ];
        for (text, offset, rule) in cases {
            assert_eq!(count(text), Err(ProtoError::Descriptor { offset, rule }), "{text}");
        }
        assert!(count(&"[".repeat(300)).is_err());
    }

    #[test]
    fn java_names_become_descriptors() {
        let cases = [
            ("java.lang.String", "Ljava/lang/String;"),
            ("int", "I"),
            (" long[][] ", "[[J"),
            ("com.acme.Outer$Inner[]", "[Lcom/acme/Outer$Inner;"),
            ("java.util.List<java.lang.String>", "Ljava/util/List;"),
            ("Ljava/util/Map;", "Ljava/util/Map;"),
            ("[I", "[I"),
        ];
        for (name, descriptor) in cases {
            assert_eq!(from_java_name(name).as_deref(), Ok(descriptor), "{name}");
        }
        for name in ["", "a..b", "[]", "java lang", "void;"] {
            assert!(from_java_name(name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_pieces_make_the_whole(text in "\\PC{0,40}") {
            if let Ok(parts) = split(&text).collect::<Result<Vec<_>, _>>() {
                prop_assert_eq!(parts.concat(), text);
            }
        }
    }
}
