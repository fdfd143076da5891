//! What arguments are encoded for, and what that tells of their types.

use dubbo_proto::{Argument, Arguments};
use hessian::transcode::Schema;
use hessian::{ClassType, JavaType};
use java_json::unknown::has_optional;

use super::ArgumentList;
use crate::route::{Generic, ParameterTypes, Plan, is_foreign};

/// What arguments are encoded for.
#[derive(Clone, Copy, Debug)]
pub struct EncodedMethod<'a> {
    /// The method's name.
    pub method: &'a str,
    /// What is known of its parameters.
    pub parameters: &'a ParameterTypes,
    /// What else is known of the method.
    pub plan: Option<&'a Plan>,
}

impl<'a> EncodedMethod<'a> {
    /// What tells the types of fields that are written. In a generic call the provider makes the
    /// objects.
    pub(super) fn schema(&self) -> &'a dyn Schema {
        match self.plan {
            Some(plan) if self.parameters.is_generic() && !plan.by_types => &plan.records,
            Some(plan) => plan,
            None => &(),
        }
    }

    /// The type by which a generic call writes one argument: if all is known of it, or if it
    /// declares a record, which is no map, or an `Optional`, which Java makes of no other value.
    /// What is the JDK's own is always known, whatever the other arguments are, and whatever it
    /// holds. The types need not be sent.
    fn of_maps(&self, index: usize) -> Option<&'a JavaType> {
        let plan = self.plan?;
        let (types, generic) = match self.parameters {
            ParameterTypes::Named(types, generic) => (types, *generic),
            ParameterTypes::Unknown => (&plan.told, plan.generic),
            ParameterTypes::Given(_) | ParameterTypes::Asked(_) => return None,
        };
        if generic == Generic::Gson {
            return None;
        }
        let is_record = |class: &ClassType| plan.records.takes_no_map(class.name());
        let ty = types.get(index)?;
        let is_known = plan.by_types
            || ty.find_class(&is_record).is_some()
            || has_optional(ty)
            || ty.find_class(&is_foreign).is_none();
        if is_known { Some(ty) } else { plan.known_parts(types).get(index)?.as_ref() }
    }
}

/// Arguments beside what they are encoded for.
pub(super) struct ArgumentsOf<'a> {
    pub(super) list: &'a ArgumentList<'a>,
    pub(super) target: EncodedMethod<'a>,
}

impl Arguments for ArgumentsOf<'_> {
    fn count(&self) -> usize {
        self.list.len()
    }

    fn ty(&self, index: usize) -> Option<&JavaType> {
        self.target.parameters.at(index).or_else(|| self.target.of_maps(index))
    }

    fn at(&self, index: usize, ty: Option<&JavaType>) -> Argument<'_> {
        match self.list.plain_text_at(index, ty) {
            Some(text) => Argument::Text(text),
            None => Argument::Json(self.list.json_at(index, ty)),
        }
    }
}

#[cfg(test)]
mod tests {
    use dubbo_proto::Serialization;

    use super::*;
    use crate::args::parse_types;

    /// In a generic call a provider of Dubbo would read dates by its own zone, and round decimals.
    #[test]
    fn what_is_the_jdks_own_is_written_by_its_type_beside_unknown_classes() {
        let types = parse_types(
            "shop.Money,java.util.List<java.util.Date>,java.math.BigDecimal[],int,\
             java.util.Map<java.lang.String,shop.Money>,java.util.Optional<shop.Money>",
        );
        let parameters = ParameterTypes::Named(types.unwrap(), Generic::Raw);
        let plan = Plan::generic(Generic::Raw);
        let (list, plan) = (ArgumentList::json(b"[]").unwrap(), Some(&plan));
        let target = EncodedMethod { method: "m", parameters: &parameters, plan };
        let args = ArgumentsOf { list: &list, target };
        let known: Vec<bool> = (0..6).map(|index| args.ty(index).is_some()).collect();
        assert_eq!(known, [false, true, true, true, false, true]);
    }

    /// Dubbo leaves a text as the key of a map where a UUID or an `Instant` is declared.
    #[test]
    fn keys_of_the_jdk_are_written_by_their_types_beside_unknown_values() {
        let types = parse_types(
            "java.util.Map<java.util.UUID,shop.Money>,java.util.List<java.util.Map<java.time.Instant,\
             shop.Money[]>>,java.util.Map<java.lang.String,shop.Money>,java.util.List<shop.Money>,\
             shop.Page<java.util.UUID>",
        );
        let parameters = ParameterTypes::Named(types.unwrap(), Generic::Raw);
        let plan = Plan::generic(Generic::Raw);
        let uuid = "00000000-0000-0001-0000-000000000002";
        let body = format!(
            r#"[{{"{uuid}":{{"n":1}}}},[{{"1970-01-01T00:00:00Z":[]}}],{{"a":{{}}}},[{{}}],{{}}]"#
        );
        let (list, plan) = (ArgumentList::json(body.as_bytes()).unwrap(), Some(&plan));
        let target = EncodedMethod { method: "m", parameters: &parameters, plan };
        let args = ArgumentsOf { list: &list, target };
        let written: Vec<_> = (0..5).map(|index| args.ty(index).map(JavaType::to_string)).collect();
        let uuids = "java.util.Map<java.util.UUID, java.lang.Object>";
        let instants = "java.util.List<java.util.Map<java.time.Instant, java.lang.Object[]>>";
        assert_eq!(written, [Some(uuids.into()), Some(instants.into()), None, None, None]);
        for serialization in [Serialization::Hessian2, Serialization::Fastjson2] {
            let mut out = Vec::new();
            list.encode_for(target, serialization, &mut out).unwrap();
            let has = |text: &str| memchr::memmem::find(&out, text.as_bytes()).is_some();
            assert!(has("java.util.UUID") || !has(uuid), "{serialization:?}");
        }
    }

    /// Dubbo 2 makes a `BigDecimal` of a whole number by way of a double.
    #[test]
    fn a_definition_tells_the_types_of_a_generic_call_that_does_not_send_them() {
        let told = parse_types("java.math.BigDecimal,shop.Money").unwrap();
        let list = ArgumentList::json(b"[]").unwrap();
        for (generic, by_types, expected) in [
            (Generic::Map, false, [true, false]),
            (Generic::Map, true, [true, true]),
            (Generic::Gson, true, [false, false]),
        ] {
            let plan = &Plan { told: told.clone(), by_types, ..Plan::generic(generic) };
            let parameters = &ParameterTypes::Unknown;
            let target = EncodedMethod { method: "m", parameters, plan: Some(plan) };
            let args = ArgumentsOf { list: &list, target };
            let known = [0, 1].map(|index| args.ty(index).is_some());
            assert_eq!(known, expected, "{generic:?} {by_types}");
        }
    }
}
