//! The code that a service becomes: its trait, its server's side and its client.
//!
//! Names of ours that stand beside names of the user have the macro's own hygiene, so that a
//! parameter may have any name.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::Attribute;

use crate::model::{MethodModel, ServiceModel};

/// Writes all of it.
pub(crate) fn expand(service: &ServiceModel) -> TokenStream {
    let the_trait = expand_trait(service);
    let for_arc = expand_arc(service);
    let client = expand_client(service);
    quote! {
        #the_trait
        #for_arc
        #client
    }
}

fn ours(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn expand_trait(service: &ServiceModel) -> TokenStream {
    let ServiceModel { link, item, methods, .. } = service;
    let syn::ItemTrait { attrs, vis, ident, supertraits, .. } = item;
    let supers = supertraits.iter();
    let declarations = methods.iter().map(|method| {
        let mut attrs = method.attrs.clone();
        if method.is_async() {
            // The lint is about the attribute then, and no setting beside the method stops it.
            attrs.push(syn::parse_quote!(#[allow(clippy::too_many_arguments)]));
        }
        let head = head(method);
        match (&method.body, method.is_async()) {
            (None, _) => quote!(#(#attrs)* #head;),
            (Some(body), false) => quote!(#(#attrs)* #head #body),
            (Some(body), true) => quote!(#(#attrs)* #head { async move #body }),
        }
    });
    let this = ours("this");
    let handlers = methods.iter().map(|method| handler(service, method, &this));
    let client = &service.client;
    quote! {
        #(#attrs)*
        #[allow(dead_code)]
        #vis trait #ident:
            #(#supers +)* ::core::marker::Sized + ::core::marker::Send + ::core::marker::Sync + 'static
        {
            #(#declarations)*

            /// The service that calls this, for a server to offer. An `Arc` of it has the same,
            /// for a program that keeps the other half.
            fn into_service(self) -> #link::Service {
                Self::__link_service(::std::sync::Arc::new(self))
            }

            #[doc(hidden)]
            #[allow(deprecated, clippy::all)]
            fn __link_service(#this: ::std::sync::Arc<Self>) -> #link::Service {
                #link::Service::new(#client::SERVICE_NAME)#(#handlers)*
            }
        }
    }
}

/// A method's declaration: asynchronous functions promise that any thread may run them.
fn head(method: &MethodModel) -> TokenStream {
    let syn::Signature { ident, inputs, output, .. } = &method.signature;
    if !method.is_async() {
        return quote!(fn #ident(#inputs) #output);
    }
    let output = &method.returns.ty;
    quote! {
        fn #ident(#inputs)
            -> impl ::core::future::Future<Output = #output> + ::core::marker::Send
    }
}

/// One method of the service that `this` becomes.
fn handler(service: &ServiceModel, method: &MethodModel, this: &Ident) -> TokenStream {
    let (name, client) = (&service.item.ident, &service.client);
    let MethodModel { ident, constant, parameters, .. } = method;
    let context = ours("context");
    let (names, pattern) = (&parameters.names, arguments(method));
    let streams = method.streams().then(|| {
        let name = |stream: &Option<(Ident, syn::Type)>| match stream {
            Some((name, _)) => quote!(#name),
            None => quote!(_),
        };
        let (receiver, sender) = (name(&parameters.receiver), name(&parameters.sender));
        quote!(, #receiver, #sender)
    });
    let register = match (method.streams(), method.is_async(), &method.returns.fallible) {
        (true, _, None) => quote!(streaming),
        (true, _, Some(_)) => quote!(streaming_fallible),
        (false, true, None) => quote!(method),
        (false, true, Some(_)) => quote!(fallible),
        (false, false, None) => quote!(blocking),
        (false, false, Some(_)) => quote!(blocking_fallible),
    };
    let (given, passed) = match (parameters.takes_context, method.is_async()) {
        (false, _) => (quote!(_), quote!()),
        (true, true) => (quote!(#context), quote!(&#context,)),
        (true, false) => (quote!(#context), quote!(#context,)),
    };
    let call = quote!(<Self as #name>::#ident(&*#this, #passed #(#names),*));
    let body = match method.is_async() {
        false => call,
        true => quote!({
            let #this = ::std::sync::Arc::clone(&#this);
            async move { #call.await }
        }),
    };
    quote! {
        .#register(&#client::#constant, {
            let #this = ::std::sync::Arc::clone(&#this);
            move |#given, #pattern #streams| #body
        })
    }
}

/// Whoever shares a service may offer it, too.
fn expand_arc(service: &ServiceModel) -> TokenStream {
    let ServiceModel { link, item, methods, .. } = service;
    let name = &item.ident;
    let shared = ours("S");
    let forwards = methods.iter().map(|method| {
        let (head, ident) = (head(method), &method.ident);
        let names = method.signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(parameter) => Some(&parameter.pat),
            syn::FnArg::Receiver(_) => None,
        });
        quote!(#head { <#shared as #name>::#ident(&**self, #(#names),*) })
    });
    quote! {
        #[automatically_derived]
        #[allow(deprecated, clippy::all)]
        impl<#shared: #name> #name for ::std::sync::Arc<#shared> {
            #(#forwards)*

            fn into_service(self) -> #link::Service {
                <#shared as #name>::__link_service(self)
            }
        }
    }
}

fn expand_client(service: &ServiceModel) -> TokenStream {
    let ServiceModel { link, name, item, client, methods } = service;
    let vis = &item.vis;
    let docs = docs(&item.attrs);
    let about = format!("Calls the service `{name}` of a server. Cheap to clone.");
    let bounds = methods.iter().map(|method| {
        let types = types(link, method);
        let bound = if method.streams() { quote!(BoundStream) } else { quote!(Bound) };
        quote!(#link::client::#bound<#types>)
    });
    let constants = methods.iter().map(|method| constant(service, method));
    let bind = methods.iter().map(|method| {
        let constant = &method.constant;
        let bind = if method.streams() { quote!(bind_stream) } else { quote!(bind) };
        quote!(client.#bind(&Self::#constant))
    });
    let calls = methods.iter().enumerate().map(|(n, method)| call(service, n, method));
    let debug_name = client.to_string();
    quote! {
        #(#docs)*
        #[doc = ""]
        #[doc = #about]
        #[derive(::core::clone::Clone)]
        #[allow(dead_code, clippy::type_complexity)]
        #vis struct #client {
            bound: ::std::sync::Arc<(#(#bounds,)*)>,
        }

        #[allow(dead_code, deprecated, clippy::all)]
        impl #client {
            /// The service's name on the wire.
            #vis const SERVICE_NAME: &'static str = #name;

            #(#constants)*

            /// Prepares all methods to be called through this client.
            #vis fn new(client: &#link::Client) -> Self {
                Self { bound: ::std::sync::Arc::new((#(#bind,)*)) }
            }

            #(#calls)*
        }

        #[automatically_derived]
        impl ::core::fmt::Debug for #client {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(#debug_name).finish_non_exhaustive()
            }
        }
    }
}

/// What client and server agree on for one method.
fn constant(service: &ServiceModel, method: &MethodModel) -> TokenStream {
    let (link, vis) = (&service.link, &service.item.vis);
    let MethodModel { constant, name, .. } = method;
    let types = types(link, method);
    let doc = format!("The method `{}`, for calls and handlers by hand.", method.ident);
    let fallible = method.returns.fallible.is_some();
    let new = match (&method.parameters.receiver, &method.parameters.sender) {
        (None, None) if fallible => quote!(Method::fallible),
        (None, None) => quote!(Method::new),
        (None, Some(_)) if fallible => quote!(StreamMethod::fallible_down),
        (None, Some(_)) => quote!(StreamMethod::down),
        (Some(_), None) if fallible => quote!(StreamMethod::fallible_up),
        (Some(_), None) => quote!(StreamMethod::up),
        (Some(_), Some(_)) if fallible => quote!(StreamMethod::fallible_both),
        (Some(_), Some(_)) => quote!(StreamMethod::both),
    };
    let kind = if method.streams() { quote!(StreamMethod) } else { quote!(Method) };
    // Types that the codecs do not know are the method's fault.
    let set = match &method.codecs {
        Some(codecs) => codecs.set(link),
        None => at(quote!(#link::codec::Serde), method.ident.span()),
    };
    let idempotent = method.idempotent.then(|| quote!(.idempotent()));
    quote! {
        #[doc = #doc]
        #vis const #constant: #link::#kind<#types> =
            #link::#new::<#set>(Self::SERVICE_NAME, #name)#idempotent;
    }
}

/// Has the compiler blame this place for these tokens.
fn at(tokens: TokenStream, span: Span) -> TokenStream {
    let placed = tokens.into_iter().map(|mut token| {
        token.set_span(token.span().located_at(span));
        token
    });
    placed.collect()
}

/// The client's method.
fn call(service: &ServiceModel, n: usize, method: &MethodModel) -> TokenStream {
    let (link, vis) = (&service.link, &service.item.vis);
    let ident = &method.ident;
    let attrs = client_attributes(method);
    let types = types(link, method);
    let parameters = method.parameters.args.iter().map(|(arg, ty)| quote!(#arg: #ty));
    let args = arguments(method);
    let n = syn::Index::from(n);
    let (future, begin) = match (method.streams(), method.one_way) {
        (true, _) => (quote!(Open), quote!(open)),
        (false, true) => (quote!(OneWay), quote!(call_one_way)),
        (false, false) => (quote!(Call), quote!(call)),
    };
    quote! {
        #(#attrs)*
        #vis fn #ident(&self, #(#parameters),*) -> #link::client::#future<'_, #types> {
            self.bound.#n.#begin(#args)
        }
    }
}

/// What is said about a method holds for calling it, too.
fn client_attributes(method: &MethodModel) -> Vec<TokenStream> {
    let mut attrs: Vec<_> = docs(&method.attrs).map(|doc| quote!(#doc)).collect();
    if attrs.is_empty() {
        let doc = format!("Calls `{}`.", method.ident);
        attrs.push(quote!(#[doc = #doc]));
    }
    let deprecated = method.attrs.iter().filter(|attr| attr.path().is_ident("deprecated"));
    attrs.extend(deprecated.map(|attr| quote!(#attr)));
    attrs
}

fn docs(attrs: &[Attribute]) -> impl Iterator<Item = &Attribute> {
    attrs.iter().filter(|attr| attr.path().is_ident("doc"))
}

/// A method's types, as `Method`, `Bound` and `Call` and their streaming kin have them.
fn types(link: &syn::Path, method: &MethodModel) -> TokenStream {
    let parameters = &method.parameters;
    let args: Vec<_> = parameters.args.iter().map(|(_, ty)| ty).collect();
    let request = tuple(&args);
    let items = |stream: &Option<(Ident, syn::Type)>| match stream {
        Some((_, ty)) => quote!(#ty),
        None => quote!(#link::NoItems),
    };
    let streams = method.streams().then(|| {
        let (inputs, outputs) = (items(&parameters.receiver), items(&parameters.sender));
        quote!(#inputs, #outputs,)
    });
    match (&method.returns.ty, &method.returns.fallible) {
        (ty, None) => quote!(#request, #streams #ty),
        (_, Some((value, error))) => quote!(#request, #streams #value, #error),
    }
}

/// The arguments' names, as a pattern and as a value.
fn arguments(method: &MethodModel) -> TokenStream {
    let names: Vec<_> = method.parameters.args.iter().map(|(name, _)| name).collect();
    tuple(&names)
}

/// `()`, the one thing there is, or a tuple of all.
fn tuple(parts: &[impl quote::ToTokens]) -> TokenStream {
    match parts {
        [part] => quote!(#part),
        parts => quote!((#(#parts),*)),
    }
}
