//! What is known of the types of a generic call that have classes of the caller's own in them.

use hessian::transcode::builtin::Builtin;
use hessian::{ClassType, JavaType};

use super::is_scalar;

/// Whether a class is none of the JDK's.
pub(crate) fn is_foreign(class: &ClassType) -> bool {
    !class.name().starts_with("java.")
}

/// What is known of a type with classes of the caller's own in it: these may be anything. Java
/// reads no text as a key that is a UUID or an `Instant`, whatever the values are. Nothing if the
/// provider makes the same of what stands there.
pub(super) fn known_part(ty: &JavaType) -> Option<JavaType> {
    let is_scalar_of_jdk = |class: &ClassType| {
        class.builtin().is_some_and(|builtin| builtin != Builtin::String)
            && is_scalar(&JavaType::class(class.name()))
    };
    let known = without_foreign(ty);
    known.find_class(&is_scalar_of_jdk).is_some().then_some(known)
}

fn without_foreign(ty: &JavaType) -> JavaType {
    match ty {
        JavaType::Class(class) if is_foreign(class) => JavaType::class("java.lang.Object"),
        JavaType::Class(class) => {
            JavaType::class_of(class.name(), class.args().iter().map(without_foreign).collect())
        }
        JavaType::Array(element) => JavaType::Array(Box::new(without_foreign(element))),
        primitive => primitive.clone(),
    }
}
