//! Classes of a service whose objects Dubbo's generic call cannot make of maps: it sets fields one
//! by one, and nobody can set those of a record.
//!
//! A provider says which class that was when it refuses a call. Nothing was begun, so the call is
//! made once more, with objects of that class as such; the serialization can make these. The route
//! remembers the class.

use std::cell::RefCell;

use hessian::JavaType;
use hessian::transcode::Schema;

use crate::error::{CallError, Code};

/// So many classes of one method are remembered; a call with more is refused as the provider
/// refuses it.
pub(crate) const MAX_RECORDS: usize = 8;

/// What a method's provider has told.
#[derive(Clone, Debug, Default)]
pub struct Records(RefCell<Vec<Box<str>>>);

impl Records {
    /// Remembers a class. Whether it is new, and there was room.
    pub(crate) fn learn(&self, class: &str) -> bool {
        let mut known = self.0.borrow_mut();
        let is_new = known.len() < MAX_RECORDS && !known.iter().any(|one| **one == *class);
        if is_new {
            known.push(class.into());
        }
        is_new
    }

    /// Takes that back, for the provider takes no objects of the class either.
    pub(crate) fn forget(&self, class: &str) {
        self.0.borrow_mut().retain(|one| **one != *class);
    }
}

/// Of no class are the fields known.
impl Schema for Records {
    fn field_type(&self, _class: &str, _field: &str) -> Option<&JavaType> {
        None
    }

    fn takes_no_map(&self, class: &str) -> bool {
        self.0.borrow().iter().any(|one| **one == *class)
    }
}

/// The class whose object a provider could not make of a map, if that is why it refused a generic
/// call. The words are those of `PojoUtils` in Dubbo 2.7 and 3, and of the JVM.
pub(crate) fn named_in(error: &CallError) -> Option<&str> {
    if error.code != Code::BadArguments {
        return None;
    }
    let line = error.message.lines().next()?;
    let (_, rest) = line.split_once("Failed to set field ")?;
    let (_, rest) = rest.split_once(" of pojo ")?;
    let (class, why) = rest.split_once(" : ")?;
    (why.starts_with("Can not set final ") && JavaType::is_class_name(class)).then_some(class)
}

/// The refusal with what a caller can do about it. Where the arguments name the class, an object
/// of it was sent without success.
pub(crate) fn advise(error: CallError, is_mentioned: impl FnOnce(&str) -> bool) -> CallError {
    let Some(class) = named_in(&error) else { return error };
    let advice = match is_mentioned(class) {
        true => "this provider cannot read an object of it in this serialization; fastjson2, and \
             hessian2 of Dubbo 3.3, can"
            .to_owned(),
        false => format!(
            "name it in the JSON object (\"class\":\"{class}\"), or send the parameter types \
             (header x-dubbo-parameter-types)"
        ),
    };
    let message = format!(
        "{}: {class} is a record, or has final fields, which Dubbo's generic call cannot set; {advice}",
        error.summary()
    );
    CallError { message: message.into(), provider_status: None, ..error }
}

#[cfg(test)]
mod tests {
    use dubbo_proto::Status;

    use super::*;

    const REFUSAL: &str = "org.apache.dubbo.rpc.RpcException: java.lang.RuntimeException: Failed to set field unit \
        of pojo a.Outer$Size : Can not set final java.lang.String field a.Outer$Size.unit to java.lang.String\n\
        \tat org.apache.dubbo.rpc.filter.GenericFilter.invoke(GenericFilter.java:130)\n\tat x.Y.z(Y.java:1)";

    #[test]
    fn the_class_is_in_the_refusal() {
        let refusal = |text: &str| CallError::from_provider(Status::ServiceError, text);
        assert_eq!(named_in(&refusal(REFUSAL)), Some("a.Outer$Size"));
        for other in [
            // The method's own failure, and other reasons.
            REFUSAL.replace("GenericFilter.invoke", "GenericFilter.find"),
            REFUSAL.replace("Can not set final", "Can not set"),
            REFUSAL.replace("a.Outer$Size :", "a b :"),
            REFUSAL.replace("of pojo", "of bean"),
        ] {
            assert_eq!(named_in(&refusal(&other)), None, "{other}");
        }
        let advice = advise(refusal(REFUSAL), |_| false).to_string();
        assert!(advice.contains(r#""class":"a.Outer$Size""#), "{advice}");
    }

    #[test]
    fn few_classes_are_remembered() {
        let records = Records::default();
        for n in 0..MAX_RECORDS {
            assert!(records.learn(&format!("a.B{n}")));
        }
        assert!(!records.learn("a.B0") && !records.learn("a.C") && records.takes_no_map("a.B7"));
        records.forget("a.B7");
        assert!(!records.takes_no_map("a.B7") && records.learn("a.C"));
    }
}
