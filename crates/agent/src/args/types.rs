//! The types of parameters as a caller tells them.

use hessian::generics::{self, GenericsError, Instances};
use hessian::{ClassType, JavaType};
use percent_encoding::percent_decode_str;
use registry::Definition;

use super::MAX_ARGUMENTS;
use crate::config::advise_package;
use crate::error::{CallError, Code, clip};

/// Reads parameter types as a caller writes them: JVM descriptors (`Ljava/lang/String;I`), or Java
/// names between commas (`java.lang.String,int`); percent-encoded or not, as no type has a `%`.
///
/// # Errors
/// [`Code::BadRequest`] with the type that is not one.
pub fn parse_types(text: &str) -> Result<Vec<JavaType>, CallError> {
    let text = percent_decode_str(text).decode_utf8_lossy();
    let text = text.trim();
    let shown = clip(text);
    let types = match JavaType::parse_descriptors(text) {
        Ok(types) => Ok(types),
        Err(_) => {
            let named: Result<Vec<JavaType>, _> =
                split_names(text).into_iter().map(|name| JavaType::parse(name.trim())).collect();
            check_names(shown, named.as_deref().unwrap_or_default())?;
            named
        }
    };
    match types {
        Ok(types) if types.len() <= MAX_ARGUMENTS => Ok(types),
        Ok(types) => Err(CallError::new(
            Code::BadRequest,
            format!("{} parameter types are over the limit of {MAX_ARGUMENTS}", types.len()),
        )),
        Err(error) => Err(CallError::new(
            Code::BadRequest,
            format!("parameter types {shown:?} are neither descriptors nor Java names: {error}"),
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

/// Refuses a class without its package: it would be another class, if there is one at all, or a
/// type variable.
fn check_names(shown: &str, types: &[JavaType]) -> Result<(), CallError> {
    let is_simple = |class: &ClassType| !class.name().contains('.');
    match types.iter().find_map(|ty| ty.find_class(&is_simple)) {
        None => Ok(()),
        Some(class) => {
            let name = clip(class.name());
            let message = format!(
                "parameter types {shown:?}: {name} has no package; {}",
                advise_package(name)
            );
            Err(CallError::new(Code::BadRequest, message))
        }
    }
}

/// What the type arguments of parameters mean for the fields of their classes.
///
/// # Errors
/// [`Code::BadArguments`] with the parameter whose arguments are not understood.
pub(crate) fn understood(
    types: &[JavaType],
    schema: Option<&Definition>,
) -> Result<Instances, CallError> {
    let mut instances = Instances::default();
    let known = |class: &str| schema?.service.generic(class);
    for (index, ty) in types.iter().enumerate() {
        let is_told = |class: &ClassType| {
            !class.args().is_empty() && schema.is_some_and(|it| it.service.knows(class))
        };
        // A definition may tell of one type alone, without a word of the class.
        if matches!(ty, JavaType::Class(class) if is_told(class)) {
            continue;
        }
        let added = generics::check(ty, &known).and_then(|()| instances.add(ty, &known));
        added.map_err(|error| {
            let advice = match error {
                GenericsError::Unknown { .. } => {
                    "; describe the class in a definition (docs/calling.md), or leave out what is between < and > \
                     and let objects name their class: {\"class\":\"com.acme.Order\", ..}"
                }
                _ => "",
            };
            let message = format!("parameter type {index} ({}): {error}{advice}", clip(&ty.to_string()));
            CallError::new(Code::BadArguments, message)
        })?;
    }
    Ok(instances)
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
        for text in ["x", "a<", "com.acme.A,", "A,"] {
            let message = parse_types(&text.repeat(9_000)).unwrap_err().message;
            assert!(message.len() < 900, "{text}: {} bytes", message.len());
        }
    }

    #[test]
    fn a_class_has_its_package() {
        for (text, advice) in [
            ("String", "did you mean java.lang.String?"),
            ("int,List<com.acme.Order>", "did you mean java.util.List?"),
            ("java.util.List<string>", "did you mean java.lang.String?"),
            ("Page<OrderDTO>", "such as com.acme.Page"),
            ("com.acme.Page<OrderDTO>", "such as com.acme.OrderDTO"),
            ("com.acme.Page<T>", "T has no package"),
            ("bigdecimal[]", "did you mean java.math.BigDecimal?"),
        ] {
            let error = parse_types(text).unwrap_err();
            assert_eq!(error.code, Code::BadRequest);
            assert!(error.message.contains(advice), "{text}: {}", error.message);
        }
        // A descriptor says all there is to say.
        assert_eq!(parse_types("LOrder;B").map(|types| types.len()), Ok(2));
    }
}
