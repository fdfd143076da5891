//! How much a call matters while it waits for room: the attachment `dubmesh.priority`.
//!
//! It is looked at only when a call has to wait.

use flow::queue::Priority;

use crate::facts::CallFacts;

/// The attachment that tells a call's class, wherever the call goes.
pub const ATTACHMENT: &str = "dubmesh.priority";

/// The class of a call; `otherwise` if the call names none, or one that is not known.
pub fn of(facts: &dyn CallFacts, otherwise: Priority) -> Priority {
    facts.attachment(ATTACHMENT).and_then(|name| Priority::of_name(&name)).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::Filter;

    #[test]
    fn a_call_names_its_class_or_has_that_of_its_service() {
        let of_call = |value: Option<&str>| {
            let mut call = Filter::default().call;
            call.attachments.extend(value.map(|it| (ATTACHMENT.to_owned(), it.to_owned())));
            of(&call, Priority::Low)
        };
        assert_eq!(of_call(None), Priority::Low);
        assert_eq!(of_call(Some("urgent")), Priority::Low);
        for (name, priority) in Priority::NAMES {
            assert_eq!((of_call(Some(name)), priority.name()), (priority, name));
        }
    }
}
