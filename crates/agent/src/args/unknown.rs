//! Whether arguments have objects of which nobody knows the fields.

use hessian::json::JsonReader;
use hessian::{JavaType, Limits};
use java_json::unknown::{Reasons, has_unreadable};

use super::ArgumentList;
use crate::route::{Plan, UnknownFields};

impl ArgumentList<'_> {
    /// Whether they may have objects of which nobody knows the fields.
    pub(crate) fn may_have_unknown_fields(&self, plan: &Plan) -> bool {
        match plan.unknown {
            UnknownFields::Never => false,
            // With an escape it may be written in other ways.
            UnknownFields::IfNamed => self.mentions("\"class\"") || self.mentions("\\u00"),
            UnknownFields::IfFound | UnknownFields::Declared | UnknownFields::Erased => true,
        }
    }

    /// Whether they have something that a provider could not read in objects.
    pub(crate) fn have_unreadable(
        &self,
        types: &[JavaType],
        plan: &Plan,
        reasons: Reasons,
    ) -> bool {
        if plan.unknown == UnknownFields::Erased {
            return true;
        }
        types.iter().enumerate().take(self.len()).any(|(index, ty)| {
            let text = self.json_at(index, Some(ty));
            let mut reader = JsonReader::new(&text, Limits::of_whole());
            // What is no JSON, its writer says best.
            has_unreadable(&mut reader, Some(ty), plan, reasons).unwrap_or(false)
        })
    }
}

#[cfg(test)]
mod tests {
    use java_json::unknown::Unreadable;

    use super::*;

    const REASONS: Reasons =
        Reasons { unreadable: Unreadable::Fields, knows_variables: false, knows_elements: false };

    #[test]
    fn the_text_is_read_only_where_it_may_matter() {
        let types = [JavaType::class("java.lang.Object"), JavaType::class("a.B")];
        let has = |unknown, body: &str| {
            let plan = Plan { unknown, ..Plan::default() };
            let args = ArgumentList::json(body.as_bytes()).unwrap();
            args.may_have_unknown_fields(&plan) && args.have_unreadable(&types, &plan, REASONS)
        };
        for body in [
            r#"[{"class":"a.B","x":1},null]"#,
            r#"[[{"cl\u0061ss":"a.B","x":1}]]"#,
            r#"[1,{"class":"a.B","x":1}]"#,
        ] {
            assert!(has(UnknownFields::IfNamed, body) && has(UnknownFields::Declared, body));
            assert!(has(UnknownFields::IfFound, body), "{body}");
            assert!(!has(UnknownFields::Never, body), "{body}");
        }
        assert!(!has(UnknownFields::IfNamed, "[1,{\"x\":1}]"));
        assert!(has(UnknownFields::Declared, "[1,{\"x\":1}]"));
        assert!(!has(UnknownFields::Declared, "[{\"x\":1}]"));
        assert!(has(UnknownFields::Erased, "[{\"x\":1}]"));
    }
}
