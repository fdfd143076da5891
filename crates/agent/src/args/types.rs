//! Parameter types as callers write them.

use hessian::JavaType;
use percent_encoding::percent_decode_str;

use super::MAX_ARGUMENTS;
use crate::error::{CallError, Code};

/// Reads parameter types as a caller writes them: JVM descriptors (`Ljava/lang/String;I`), or Java
/// names between commas (`java.lang.String,int`); percent-encoded or not, as no type has a `%`.
///
/// # Errors
/// [`Code::BadRequest`] with the type that is not one.
pub fn parse_types(text: &str) -> Result<Vec<JavaType>, CallError> {
    let text = percent_decode_str(text).decode_utf8_lossy();
    let text = text.trim();
    let types = JavaType::parse_descriptors(text).or_else(|_| {
        split_names(text).into_iter().map(|name| JavaType::parse(name.trim())).collect()
    });
    match types {
        Ok(types) if types.len() <= MAX_ARGUMENTS => Ok(types),
        Ok(types) => Err(CallError::new(
            Code::BadRequest,
            format!("{} parameter types; no method has more than {MAX_ARGUMENTS}", types.len()),
        )),
        Err(error) => Err(CallError::new(
            Code::BadRequest,
            format!("parameter types {text:?} are neither descriptors nor Java names: {error}"),
        )),
    }
}

/// Splits at the commas that are not inside `<...>`.
fn split_names(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let is_separator = |character: char| {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    };
    text.split(is_separator).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_in_both_notations() {
        let names = |text| -> Vec<String> {
            parse_types(text).unwrap().iter().map(JavaType::java_name).collect()
        };
        let expected = ["java.lang.String", "int", "long[]"];
        assert_eq!(names("Ljava/lang/String;I[J"), expected);
        assert_eq!(names("java.lang.String, int,long[]"), expected);
        assert_eq!(names("Ljava%2Flang%2FString%3bI%5BJ"), expected);
        assert_eq!(names("java.util.Map<java.lang.String,java.lang.Long>").len(), 1);
        assert!(names("").is_empty());
        let error = parse_types("Ljava/lang/String").unwrap_err();
        assert_eq!(error.code, Code::BadRequest);
    }
}
