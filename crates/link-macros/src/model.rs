//! A service as a checked description of its trait.
//!
//! Invariant: what passed these checks can be expanded; what is wrong is said all at once, each at
//! its place, with what to write instead.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident};
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Error, FnArg, GenericArgument, ItemTrait, Pat, PatType, Path, PathArguments,
    PathSegment, ReceiverKind, Result, ReturnType, Safety, Signature, TraitItem, TraitItemFn, Type,
};

use crate::options::{Codecs, MethodOptions, ServiceOptions};

/// Names of methods that the client or the trait needs for itself.
const TAKEN: [&str; 4] = ["new", "clone", "into_service", "service_name"];

/// A service.
pub(crate) struct ServiceModel {
    /// Path of the crate `link`.
    pub link: Path,
    /// Its name on the wire.
    pub name: String,
    /// The trait; its items are not looked at any more.
    pub item: ItemTrait,
    pub client: Ident,
    pub methods: Vec<MethodModel>,
}

/// A method of it.
pub(crate) struct MethodModel {
    pub ident: Ident,
    /// Its name on the wire.
    pub name: String,
    /// What its `Method` is called.
    pub constant: Ident,
    /// All attributes but `#[link(...)]`.
    pub attrs: Vec<Attribute>,
    pub signature: Signature,
    /// What the trait does if an implementation says nothing.
    pub body: Option<Block>,
    pub parameters: Parameters,
    pub returns: Returns,
    pub codecs: Option<Codecs>,
    pub one_way: bool,
    pub idempotent: bool,
}

/// What a method takes beside `&self`.
#[derive(Default)]
pub(crate) struct Parameters {
    pub takes_context: bool,
    /// What is sent with a call.
    pub args: Vec<(Ident, Type)>,
    /// The items that the caller sends, and those that it is sent.
    pub receiver: Option<(Ident, Type)>,
    pub sender: Option<(Ident, Type)>,
    /// The names of arguments and streams, in the order of the declaration.
    pub names: Vec<Ident>,
}

/// What a method returns.
pub(crate) struct Returns {
    pub ty: Type,
    /// Value and error, if it is a `Result`.
    pub fallible: Option<(Type, Type)>,
}

impl MethodModel {
    pub(crate) fn is_async(&self) -> bool {
        self.signature.asyncness.is_some()
    }

    pub(crate) fn streams(&self) -> bool {
        self.parameters.receiver.is_some() || self.parameters.sender.is_some()
    }
}

/// Errors that were found so far.
#[derive(Default)]
struct Errors(Option<Error>);

impl Errors {
    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    fn at(&mut self, tokens: impl ToTokens, text: impl std::fmt::Display) {
        self.add(Error::new_spanned(tokens, text));
    }

    fn at_some(&mut self, tokens: Option<impl ToTokens>, text: &str) {
        if let Some(tokens) = tokens {
            self.at(tokens, text);
        }
    }
}

impl ServiceModel {
    /// Reads the attribute's arguments and the trait.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(crate) fn read(attribute: TokenStream, item: TokenStream) -> Result<Self> {
        let options = ServiceOptions::read(attribute)?;
        let not_a_trait = item.clone();
        let mut item: ItemTrait = syn::parse2(item).map_err(|error| {
            if is_trait(&not_a_trait) {
                return error;
            }
            Error::new(Span::call_site(), "`#[link::service]` must be on a trait")
        })?;
        let mut errors = Errors::default();
        check_trait(&item, &mut errors);
        let mut methods = Vec::new();
        for member in std::mem::take(&mut item.items) {
            match member {
                TraitItem::Fn(function) => {
                    methods.push(MethodModel::read(function, &options, &mut errors));
                }
                other => errors.at(other, "a service may contain only methods"),
            }
        }
        check_names(&methods, &mut errors);
        if let Some(error) = errors.0 {
            return Err(error);
        }
        let name = options.name.map_or_else(|| item.ident.unraw().to_string(), |name| name.value());
        let client = format_ident!("{}Client", item.ident.unraw());
        Ok(Self { link: options.link, name, item, client, methods })
    }
}

fn is_trait(item: &TokenStream) -> bool {
    item.clone().into_iter().any(|token| token.to_string() == "trait")
}

fn check_trait(item: &ItemTrait, errors: &mut Errors) {
    let generics = &item.generics;
    if !generics.params.is_empty() {
        errors.at(
            generics,
            "a service cannot be generic: client and server must mean the same types",
        );
    }
    errors.at_some(generics.where_clause.as_ref(), "a service cannot have a `where` clause");
    errors.at_some(item.unsafety, "a service cannot be `unsafe`: its callers are elsewhere");
    errors.at_some(item.modifiers.auto_token, "a service cannot be an `auto` trait");
    if item.items.is_empty() {
        errors.at(&item.ident, "a service needs at least one method");
    }
}

fn check_names(methods: &[MethodModel], errors: &mut Errors) {
    for (n, method) in methods.iter().enumerate() {
        let ident = method.ident.unraw();
        if TAKEN.iter().any(|taken| ident == taken) || ident.to_string().starts_with("__link") {
            let text = format!(
                "the generated code has a `{ident}` of its own: give this method another name, and \
                 `#[link(name = \"{ident}\")]` to keep this one on the wire"
            );
            errors.at(&method.ident, text);
        }
        let before = methods.get(..n).unwrap_or_default();
        if before.iter().any(|other| other.name == method.name) {
            let text = format!("another method is already called \"{}\" on the wire", method.name);
            errors.at(&method.ident, text);
        } else if before.iter().any(|other| other.constant == method.constant) {
            let text = format!("another method already has the constant `{}`", method.constant);
            errors.at(&method.ident, text);
        }
    }
}

impl MethodModel {
    fn read(function: TraitItemFn, service: &ServiceOptions, errors: &mut Errors) -> Self {
        let TraitItemFn { attrs, modifiers, sig, default, .. } = function;
        errors.at_some(modifiers.defaultness, "a method of a service cannot be `default`");
        let (options, attrs) = read_attributes(attrs, errors);
        check_signature(&sig, errors);
        let parameters = read_parameters(&sig, errors);
        let returns = Returns::read(&sig.output, errors);
        if let (true, ReturnType::Type(_, ty)) = (options.one_way, &sig.output)
            && !is_unit(ty)
        {
            errors.at(ty, "a one-way call cannot return anything: nobody waits for it");
        }
        let codecs = options.codecs.as_ref().or(service.codecs.as_ref()).cloned();
        if let (Some(path), [_, (second, _), ..]) =
            (codecs.as_ref().and_then(Codecs::carrying_one_value), parameters.args.as_slice())
        {
            let path = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
            let text = format!(
                "{path} carries one value: give `{}` a single parameter with all {} in it, or \
                 another codec",
                sig.ident,
                parameters.args.len()
            );
            errors.at(second, text);
        }
        let stream = parameters.receiver.as_ref().or(parameters.sender.as_ref());
        if let Some((_, ty)) = stream {
            check_stream(ty, &sig, &options, errors);
        }
        let ident = sig.ident.clone();
        let plain = ident.unraw().to_string();
        Self {
            name: options.name.map_or_else(|| plain.clone(), |name| name.value()),
            constant: Ident::new(&plain.to_uppercase(), ident.span()),
            ident,
            attrs,
            signature: sig,
            body: default,
            parameters,
            returns,
            codecs,
            one_way: options.one_way,
            idempotent: options.idempotent,
        }
    }
}

/// Our own attributes as options, and the rest.
fn read_attributes(attrs: Vec<Attribute>, errors: &mut Errors) -> (MethodOptions, Vec<Attribute>) {
    let mut options = MethodOptions::default();
    let mut rest = Vec::new();
    for attr in attrs {
        if attr.path().is_ident("link") {
            if let Err(error) = options.read(&attr) {
                errors.add(error);
            }
        } else if attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr") {
            errors.at(attr, "a single method cannot have `cfg`: write it on the trait");
        } else {
            rest.push(attr);
        }
    }
    (options, rest)
}

fn check_signature(sig: &Signature, errors: &mut Errors) {
    if !sig.generics.params.is_empty() {
        let text = "a method of a service cannot be generic: what goes over the wire has one type";
        errors.at(&sig.generics, text);
    }
    let wheres = sig.generics.where_clause.as_ref();
    errors.at_some(wheres, "a method of a service cannot have a `where` clause");
    errors.at_some(sig.constness, "a method of a service cannot be `const`");
    errors.at_some(sig.abi.as_ref(), "a method of a service cannot be `extern`");
    errors.at_some(sig.variadic.as_ref(), "a method of a service takes a fixed list of parameters");
    if !matches!(sig.safety, Safety::Default) {
        errors
            .at(&sig.safety, "a method of a service cannot be `unsafe`: its callers are elsewhere");
    }
}

/// What a method that streams cannot be beside.
fn check_stream(items: &Type, sig: &Signature, options: &MethodOptions, errors: &mut Errors) {
    if sig.asyncness.is_none() {
        errors.at(items, "a method that streams must be async: write `async fn`");
    }
    if options.one_way {
        errors.at(items, "a one-way call cannot stream: nobody waits for it");
    }
    if options.idempotent {
        errors.at(items, "a call that streams cannot be made again: its items are gone");
    }
}

fn read_parameters(sig: &Signature, errors: &mut Errors) -> Parameters {
    let mut inputs = sig.inputs.iter().peekable();
    match inputs.next_if(|input| matches!(input, FnArg::Receiver(_))) {
        Some(FnArg::Receiver(receiver)) => {
            let is_plain = matches!(receiver.kind, ReceiverKind::Reference(_, None, None));
            if !is_plain || receiver.mutability.is_some() {
                let text = "write `&self`: many calls share the service at the same time, so what \
                            changes in it goes behind a lock or into an atomic";
                errors.at(receiver, text);
            }
        }
        _ => errors.at(&sig.ident, "the first parameter of a method must be `&self`"),
    }
    let mut parameters = Parameters::default();
    for (n, input) in inputs.enumerate() {
        let FnArg::Typed(parameter) = input else { continue };
        for attr in &parameter.attrs {
            errors.at(attr, "parameters of a service's methods cannot have attributes");
        }
        match context(parameter) {
            Context::Right if n == 0 => parameters.takes_context = true,
            Context::Right => errors.at(parameter, "`&Context` must come right after `&self`"),
            Context::Mutable => errors.at(parameter, "write `&Context`: it cannot be changed"),
            Context::No => read_parameter(parameter, &mut parameters, errors),
        }
    }
    parameters
}

/// Whether a parameter is the call's context.
enum Context {
    Right,
    Mutable,
    No,
}

fn context(parameter: &PatType) -> Context {
    let Type::Reference(reference) = &*parameter.ty else { return Context::No };
    match last_segment(&reference.elem) {
        Some(last) if last.ident == "Context" && reference.mutability.is_some() => Context::Mutable,
        Some(last) if last.ident == "Context" => Context::Right,
        _ => Context::No,
    }
}

/// Reads an argument or a stream.
fn read_parameter(parameter: &PatType, parameters: &mut Parameters, errors: &mut Errors) {
    let ident = match &*parameter.pat {
        Pat::Ident(pat)
            if pat.by_ref.is_none() && pat.mutability.is_none() && pat.subpat.is_none() =>
        {
            &pat.ident
        }
        pattern => {
            let text = "write a plain name: the client's method has the same parameters";
            return errors.at(pattern, text);
        }
    };
    parameters.names.push(ident.clone());
    let stream = last_segment(&parameter.ty).and_then(|last| match &*last.ident.to_string() {
        "Sender" => Some((last, &mut parameters.sender)),
        "Receiver" => Some((last, &mut parameters.receiver)),
        _ => None,
    });
    let Some((last, place)) = stream else {
        check_argument(&parameter.ty, errors);
        return parameters.args.push((ident.clone(), (*parameter.ty).clone()));
    };
    let name = &last.ident;
    let Ok([items]) = <[Type; 1]>::try_from(type_arguments(last)) else {
        return errors.at(&parameter.ty, format!("write what it carries, `{name}<T>`"));
    };
    Owned { what: "items are", errors }.visit_type(&items);
    if place.is_some() {
        return errors.at(&parameter.ty, format!("a method can have only one `{name}`"));
    }
    *place = Some((ident.clone(), items));
}

fn check_argument(ty: &Type, errors: &mut Errors) {
    let Type::Reference(reference) = ty else {
        return Owned { what: "arguments are", errors }.visit_type(ty);
    };
    let (given, owned) = (compact(ty), owned(&reference.elem));
    let text =
        format!("arguments are sent away, so they are owned: write `{owned}` instead of `{given}`");
    errors.at(ty, text);
}

/// The types in the angle brackets after a name.
fn type_arguments(segment: &PathSegment) -> Vec<Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return Vec::new() };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    });
    types.collect()
}

/// The owned type that carries the same as a reference to this.
fn owned(ty: &Type) -> String {
    match ty {
        Type::Slice(slice) => format!("Vec<{}>", compact(&slice.elem)),
        other if compact(other) == "str" => "String".to_owned(),
        other => compact(other),
    }
}

/// A type as a person writes it, nearly.
fn compact(ty: &Type) -> String {
    let text = ty.to_token_stream().to_string();
    [(" <", "<"), ("< ", "<"), (" >", ">"), (" ::", "::"), (":: ", "::"), (" ,", ","), ("& ", "&")]
        .iter()
        .fold(text, |text, (from, to)| text.replace(from, to))
}

fn last_segment(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        Type::Group(group) => last_segment(&group.elem),
        Type::Paren(paren) => last_segment(&paren.elem),
        _ => None,
    }
}

fn is_unit(ty: &Type) -> bool {
    matches!(ty, Type::Tuple(tuple) if tuple.elems.is_empty())
}

impl Returns {
    fn read(output: &ReturnType, errors: &mut Errors) -> Self {
        let ReturnType::Type(_, given) = output else {
            return Self { ty: syn::parse_quote!(()), fallible: None };
        };
        Owned { what: "replies are", errors }.visit_type(given);
        let ty = (**given).clone();
        let Some(last) = last_segment(given).filter(|last| last.ident == "Result") else {
            return Self { ty, fallible: None };
        };
        if let Ok([value, error]) = <[Type; 2]>::try_from(type_arguments(last)) {
            return Self { ty, fallible: Some((value, error)) };
        }
        errors.at(given, "write both types, `Result<T, E>`: the error is sent, too");
        Self { ty, fallible: None }
    }
}

/// Finds what cannot be sent because it is not all there or not named.
struct Owned<'a> {
    what: &'static str,
    errors: &'a mut Errors,
}

impl<'ast> Visit<'ast> for Owned<'_> {
    fn visit_type_reference(&mut self, reference: &'ast syn::TypeReference) {
        let (what, owned) = (self.what, owned(&reference.elem));
        let text =
            format!("{what} sent away, so they are owned: write `{owned}` without a reference");
        self.errors.at(reference, text);
    }

    fn visit_lifetime(&mut self, lifetime: &'ast syn::Lifetime) {
        if lifetime.ident != "static" {
            let text =
                format!("{} sent away, so they are owned: nothing in them is borrowed", self.what);
            self.errors.at(lifetime, text);
        }
    }

    fn visit_type_impl_trait(&mut self, ty: &'ast syn::TypeImplTrait) {
        self.errors.at(ty, format!("{} of one type that has a name, not `impl ...`", self.what));
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.segments.first().is_some_and(|first| first.ident == "Self") {
            self.errors.at(path, "name the type: the client does not know what `Self` is");
        }
        visit::visit_path(self, path);
    }
}
