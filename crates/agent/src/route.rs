//! Routes: what all calls of one method with one list of parameter types have in common.
//!
//! A route holds everything that is worth preparing once: the parsed types, the constant parts of
//! a Dubbo request, the definition for links (in [`RouteVariant`]). It does not know where its
//! calls go: the table in [`crate::routes`] does.

pub(crate) mod constants;
mod judgement;
mod known_parts;
pub(crate) mod records;
mod variant;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use dubbo_proto::ServiceKey;
use dubbo_proto::definition::MethodDefinition;
use hessian::JavaType;
use hessian::generics::Instances;
use hessian::transcode::Schema;
use hessian::transcode::builtin::Builtin;
use registry::Definition;

use self::constants::{Constant, ConstantRule, Constants};
pub use self::judgement::{Judgement, TypesVerdict};
pub(crate) use self::known_parts::is_foreign;
use self::known_parts::known_part;
use self::records::Records;
pub(crate) use self::variant::with_service;
pub use self::variant::{RouteVariant, template, unsupported};
use crate::expected_len::ExpectedLen;

/// The method of a route whose calls are whole Dubbo requests: no Java method can be called so.
pub const WHOLE: &str = "*";

/// The method of Dubbo's generic call, and its descriptor, which the provider compares to the
/// letter.
const GENERIC_METHOD: &str = "$invoke";
const GENERIC_DESCRIPTOR: &str = "Ljava/lang/String;[Ljava/lang/String;[Ljava/lang/Object;";

/// The versions and groups that a route remembers of endpoints whose callers leave them open. With
/// more of them, those are prepared anew for calls.
const MAX_VARIANTS: usize = 32;

/// What is known of a method's parameters.
#[derive(Clone, Debug)]
pub enum ParameterTypes {
    /// The caller has told their types.
    Given(Vec<JavaType>),
    /// A generic call that tells their types.
    Named(Vec<JavaType>, Generic),
    /// The caller has not told; the provider finds the method by its name, in a generic call.
    Unknown,
    /// A generic call that tells these types and has another number of arguments. Dubbo looks for
    /// the method, and then refuses to call it: this only asks whether it is there.
    Asked(Vec<JavaType>),
}

/// Whether a generic call takes values of the type as they are: what is not a map is left as it
/// is.
pub(crate) fn is_scalar(ty: &JavaType) -> bool {
    use Builtin as B;
    match ty {
        JavaType::Class(class) => class.builtin().is_some_and(|builtin| {
            !matches!(builtin, B::Any | B::Number | B::List | B::Map | B::EnumSet | B::Optional)
        }),
        JavaType::Array(element) => **element == JavaType::Byte,
        _ => true,
    }
}

/// How arguments and result of a generic call are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Generic {
    /// `generic=true`: objects are maps.
    #[default]
    Map,
    /// `generic=raw.return`: objects are maps in the arguments, and themselves in the result.
    Raw,
    /// `generic=gson`: each argument is a JSON text, and so is the result.
    Gson,
}

impl Generic {
    /// Dubbo's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Map => "true",
            Self::Raw => "raw.return",
            Self::Gson => "gson",
        }
    }

    /// The mode of that name, of those that callers ask for.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Map, Self::Gson].into_iter().find(|mode| mode.name() == name)
    }
}

/// What was found out about a method when its route was made.
#[derive(Debug, Default)]
pub struct Plan {
    /// Tells the types of the fields of its parameters' classes.
    pub schema: Option<Arc<Definition>>,
    /// The type of its result, where a definition tells.
    pub result: Option<JavaType>,
    /// How many of the last arguments go into one array, where a method takes any number.
    pub n_packed: Option<usize>,
    /// Whether the last argument goes into an array if it is none.
    pub may_pack: bool,
    /// If there are any, the route is of a name that several methods have, and itself not called.
    pub overloads: Vec<Candidate>,
    /// Whether the types are from the definition alone, so that the provider may know better.
    pub is_guess: bool,
    /// What it has said of them.
    pub judgement: Cell<Judgement>,
    /// How a generic call is written.
    pub generic: Generic,
    /// The types that a definition tells of the parameters of a generic call that does not send
    /// them.
    pub told: Vec<JavaType>,
    /// The classes whose objects a generic call cannot write as maps, as far as the provider has
    /// told.
    pub records: Records,
    /// What the type arguments mean that the caller has told.
    pub instances: Instances,
    /// Which arguments may have objects of which nobody knows the fields.
    pub unknown: UnknownFields,
    /// Whether a generic call writes its arguments by the types of its parameters, of which all
    /// is known. Java itself makes no elements of a `List<T>`, unless they name their class.
    pub by_types: bool,
    /// Which texts are written as constants of enums.
    pub(crate) constants: Constants,
    /// What is known of the types of a generic call that are not known as a whole, once somebody
    /// asked.
    pub(crate) known_parts: OnceCell<Box<[Option<JavaType>]>>,
}

/// Which arguments may have objects of which nobody knows the fields: those are for the provider
/// to make.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum UnknownFields {
    /// None, for they are scalars.
    #[default]
    Never,
    /// Those that name a class.
    IfNamed,
    /// Those that name a class, and of the known ones: what is optional, which no provider reads
    /// in objects, and what stands for a type variable or in a collection without type arguments.
    IfFound,
    /// Any, for a parameter is of such a class.
    Declared,
    /// All, for nothing tells what the lists and maps of the parameters hold.
    Erased,
}

/// What is known of the fields of classes.
impl Schema for Plan {
    fn field_type(&self, class: &str, field: &str) -> Option<&JavaType> {
        if let Some(fields) = self.instances.fields(class) {
            return fields.get(field);
        }
        self.schema.as_ref()?.service.field_type(class, field)
    }

    fn knows_arguments(&self, class: &str) -> bool {
        self.instances.fields(class).is_some()
            || self.schema.as_ref().is_some_and(|schema| schema.service.knows_arguments(class))
    }

    fn enum_names(&self, class: &str) -> Option<&[Box<str>]> {
        self.schema.as_ref()?.service.enum_names(class)
    }

    fn takes_constant(&self, class: &str, name: &str) -> bool {
        self.enum_names(class).is_none_or(|listed| self.constants.take(class, name, listed))
    }

    fn is_enum(&self, class: &str) -> Option<bool> {
        self.schema.as_ref()?.service.is_enum(class)
    }

    fn takes_text(&self, class: &str) -> bool {
        self.schema.as_ref().is_none_or(|schema| schema.service.takes_text(class))
    }

    fn takes_no_map(&self, class: &str) -> bool {
        self.records.takes_no_map(class)
    }
}

impl UnknownFields {
    /// Whether all is known of the types of the parameters.
    pub(crate) fn are_of_known_types(self) -> bool {
        !matches!(self, Self::Declared | Self::Erased)
    }
}

impl Plan {
    /// A generic call.
    pub fn generic(generic: Generic) -> Self {
        let rule = match generic {
            Generic::Map | Generic::Raw => ConstantRule::Any,
            // Gson makes null of what is no name.
            Generic::Gson => ConstantRule::Certain,
        };
        Self { generic, constants: Constants::by(rule), ..Self::default() }
    }

    /// Whether a text is one of those that a definition lists as the values of an enum.
    pub(crate) fn lists(&self, constant: &Constant) -> bool {
        let names = self.enum_names(&constant.class).unwrap_or_default();
        names.contains(&constant.name)
    }

    /// What is known of these types, which are those of its method, beside classes of the caller's
    /// own. Nothing of those that are known as a whole, or of which nothing need be known.
    pub(crate) fn known_parts(&self, types: &[JavaType]) -> &[Option<JavaType>] {
        self.known_parts.get_or_init(|| types.iter().map(known_part).collect())
    }

    /// What of it tells how arguments are written, for another thread.
    pub(crate) fn for_encoding(&self) -> Self {
        let (schema, generic, by_types) = (self.schema.clone(), self.generic, self.by_types);
        let (records, instances) = (self.records.clone(), self.instances.clone());
        let (told, constants) = (self.told.clone(), self.constants.clone());
        Self { schema, told, generic, by_types, records, instances, constants, ..Self::default() }
    }
}

impl Candidate {
    /// A method of a definition.
    pub fn new(method: &MethodDefinition, n_packed: Option<usize>) -> Self {
        Self { types: method.parameters.clone(), result: method.result.clone(), n_packed }
    }
}

/// One of several methods of the same name.
#[derive(Debug)]
pub struct Candidate {
    /// Its parameters.
    pub types: Vec<JavaType>,
    /// The type of its result, where it can be read.
    pub result: Option<JavaType>,
    /// How many of the last arguments go into its last parameter, an array.
    pub n_packed: Option<usize>,
}

impl ParameterTypes {
    /// The type of one parameter, where it is known.
    pub fn at(&self, index: usize) -> Option<&JavaType> {
        match self {
            Self::Given(types) => types.get(index),
            // What is not an object of the estate is the same in a generic call as in any other.
            Self::Named(types, Generic::Map | Generic::Raw) => {
                types.get(index).filter(|ty| is_scalar(ty))
            }
            Self::Named(_, Generic::Gson) | Self::Unknown | Self::Asked(_) => None,
        }
    }

    /// Whether the method is called by Dubbo's generic call.
    pub fn is_generic(&self) -> bool {
        !matches!(self, Self::Given(_))
    }
}

/// One method of one service, with one list of parameter types.
pub struct Route {
    /// Place in the worker's table; links use it to find their own number.
    pub index: usize,
    /// Never used twice: a place that is used again has another one.
    pub generation: u64,
    /// The method as the caller named it.
    pub method: Box<str>,
    /// Its parameters.
    pub parameters: ParameterTypes,
    /// What else is known of it.
    pub plan: Plan,
    /// How it is called with the version and group that its callers name.
    pub own: RouteVariant,
    /// How long the replies are that its calls get from Dubbo providers.
    pub reply_len: ExpectedLen,
    /// For endpoints that are listed with others, the oldest first.
    variants: RefCell<Vec<(ServiceKey, Rc<RouteVariant>)>>,
}

impl std::fmt::Debug for Route {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Route").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Where a worker's table has a route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoutePlace {
    pub(crate) index: usize,
    /// Which of the routes that the table has had there.
    pub(crate) generation: u64,
}

impl Route {
    /// Whether the value of a reply is JSON text inside of a string, as of `generic=gson`.
    pub fn answers_json_text(&self) -> bool {
        self.parameters.is_generic() && self.plan.generic == Generic::Gson
    }

    /// Whether objects in a reply are maps, as of `generic=true`.
    pub fn answers_maps(&self) -> bool {
        self.parameters.is_generic() && self.plan.generic == Generic::Map
    }

    /// Prepares a method of `service`, for `place` in its worker's table.
    pub(crate) fn new(
        place: RoutePlace,
        service: &ServiceKey,
        method: &str,
        parameters: ParameterTypes,
        plan: Plan,
    ) -> Self {
        let own = RouteVariant::new(service, method, &parameters, &plan);
        Self {
            index: place.index,
            generation: place.generation,
            method: method.into(),
            parameters,
            plan,
            own,
            reply_len: ExpectedLen::default(),
            variants: RefCell::default(),
        }
    }

    /// By what routes are told apart when they are shown, in their order.
    pub fn name(&self) -> (&str, &str, &str) {
        (&self.own.service, &self.method, &self.own.def.descriptor)
    }

    /// How it is called with the version and group of `service`, with which an endpoint is listed
    /// for callers that leave them open.
    pub fn variant(&self, service: &ServiceKey) -> Rc<RouteVariant> {
        let mut variants = self.variants.borrow_mut();
        if let Some(known) = variants.iter().find(|known| known.0 == *service) {
            return Rc::clone(&known.1);
        }
        let made = RouteVariant::new(service, &self.method, &self.parameters, &self.plan);
        let made = Rc::new(made);
        if variants.len() == MAX_VARIANTS {
            variants.remove(0);
        }
        variants.push((service.clone(), Rc::clone(&made)));
        made
    }
}

pub(crate) fn descriptors(types: &[JavaType]) -> String {
    let mut text = String::new();
    types.iter().for_each(|ty| ty.write_descriptor(&mut text));
    text
}

/// How a caller names a route; the same route may have several such names.
#[derive(Clone, Copy, Debug)]
pub struct RouteName<'a> {
    /// The interface.
    pub interface: &'a str,
    /// Its version; empty is none.
    pub version: &'a str,
    /// Its group; empty is none.
    pub group: &'a str,
    /// The method.
    pub method: &'a str,
    /// The parameter types as the caller wrote them; `None` if it did not.
    pub types: Option<&'a str>,
    /// How a generic call is written, if the caller wants one.
    pub generic: Option<Generic>,
}

impl RouteName<'_> {
    /// The same names mean another service in another registry, and another method with another
    /// number of arguments.
    pub(crate) fn write_key(&self, registry: usize, n_args: usize, key: &mut String) {
        key.clear();
        match u8::try_from(registry) {
            Ok(registry) => key.push(char::from(registry)),
            Err(_) => key.push_str(&registry.to_string()),
        }
        key.push('\n');
        for part in [self.interface, self.version, self.group, self.method] {
            key.push_str(part);
            key.push('\n');
        }
        if let Some(generic) = self.generic {
            key.push_str(generic.name());
            key.push('\n');
        }
        match self.types {
            Some(types) => key.push_str(types),
            None => {
                key.push('?');
                key.push(u32::try_from(n_args).ok().and_then(char::from_u32).unwrap_or('?'));
            }
        }
    }
}

#[cfg(test)]
mod tests;
