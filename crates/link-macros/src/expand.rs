//! The code that a service becomes: its trait, its server's side and its client.
//!
//! Names of ours that stand beside names of the user have the macro's own hygiene, so that a
//! parameter may have any name.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::Attribute;

use crate::model::{Method, Service};

/// Writes all of it.
pub(crate) fn expand(service: &Service) -> TokenStream {
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

fn expand_trait(service: &Service) -> TokenStream {
    let Service { link, item, methods, .. } = service;
    let syn::ItemTrait { attrs, vis, ident, supertraits, .. } = item;
    let supers = supertraits.iter();
    let declarations = methods.iter().map(|method| {
        let attrs = &method.attrs;
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
fn head(method: &Method) -> TokenStream {
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
fn handler(service: &Service, method: &Method, this: &Ident) -> TokenStream {
    let (name, client) = (&service.item.ident, &service.client);
    let Method { ident, constant, .. } = method;
    let context = ours("context");
    let args: Vec<_> = method.args.iter().map(|(arg, _)| arg).collect();
    let pattern = tuple(&args);
    let fallible = method.returns.fallible.is_some();
    if method.is_async() {
        let register = if fallible { quote!(fallible) } else { quote!(method) };
        let context_arg = method.takes_context.then(|| quote!(&#context,));
        let context = if method.takes_context { quote!(#context) } else { quote!(_) };
        return quote! {
            .#register(&#client::#constant, {
                let #this = ::std::sync::Arc::clone(&#this);
                move |#context, #pattern| {
                    let #this = ::std::sync::Arc::clone(&#this);
                    async move {
                        <Self as #name>::#ident(&*#this, #context_arg #(#args),*).await
                    }
                }
            })
        };
    }
    let register = if fallible { quote!(blocking_fallible) } else { quote!(blocking) };
    let context_arg = method.takes_context.then(|| quote!(#context,));
    let context = if method.takes_context { quote!(#context) } else { quote!(_) };
    quote! {
        .#register(&#client::#constant, {
            let #this = ::std::sync::Arc::clone(&#this);
            move |#context, #pattern| <Self as #name>::#ident(&*#this, #context_arg #(#args),*)
        })
    }
}

/// Whoever shares a service may offer it, too.
fn expand_arc(service: &Service) -> TokenStream {
    let Service { link, item, methods, .. } = service;
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

fn expand_client(service: &Service) -> TokenStream {
    let Service { link, name, item, client, methods } = service;
    let vis = &item.vis;
    let docs = docs(&item.attrs);
    let about = format!("Calls the service `{name}` of a server. Cheap to clone.");
    let bounds = methods.iter().map(|method| {
        let types = types(method);
        quote!(#link::client::Bound<#types>)
    });
    let constants = methods.iter().map(|method| constant(service, method));
    let bind = methods.iter().map(|method| {
        let constant = &method.constant;
        quote!(client.bind(&Self::#constant))
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
fn constant(service: &Service, method: &Method) -> TokenStream {
    let (link, vis) = (&service.link, &service.item.vis);
    let Method { constant, name, .. } = method;
    let types = types(method);
    let doc = format!("The method `{}`, for calls and handlers by hand.", method.ident);
    let new = if method.returns.fallible.is_some() { quote!(fallible) } else { quote!(new) };
    // Types that the codecs do not know are the method's fault.
    let span = method.ident.span();
    let set = match &method.codecs {
        Some(codecs) => codecs.set(link),
        None => quote_spanned!(span=> #link::codec::Serde),
    };
    let idempotent = method.idempotent.then(|| quote!(.idempotent()));
    quote! {
        #[doc = #doc]
        #vis const #constant: #link::Method<#types> =
            #link::Method::#new::<#set>(Self::SERVICE_NAME, #name)#idempotent;
    }
}

/// The client's method.
fn call(service: &Service, n: usize, method: &Method) -> TokenStream {
    let (link, vis) = (&service.link, &service.item.vis);
    let ident = &method.ident;
    let attrs = client_attributes(method);
    let types = types(method);
    let parameters = method.args.iter().map(|(arg, ty)| quote!(#arg: #ty));
    let args: Vec<_> = method.args.iter().map(|(arg, _)| arg).collect();
    let args = tuple(&args);
    let n = syn::Index::from(n);
    let (future, begin) = match method.one_way {
        false => (quote!(Call), quote!(call)),
        true => (quote!(OneWay), quote!(call_one_way)),
    };
    quote! {
        #(#attrs)*
        #vis fn #ident(&self, #(#parameters),*) -> #link::client::#future<'_, #types> {
            self.bound.#n.#begin(#args)
        }
    }
}

/// What is said about a method holds for calling it, too.
fn client_attributes(method: &Method) -> Vec<TokenStream> {
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

/// A method's types, as `Method`, `Bound` and `Call` have them.
fn types(method: &Method) -> TokenStream {
    let args: Vec<_> = method.args.iter().map(|(_, ty)| ty).collect();
    let request = tuple(&args);
    match (&method.returns.ty, &method.returns.fallible) {
        (ty, None) => quote!(#request, #ty),
        (_, Some((value, error))) => quote!(#request, #value, #error),
    }
}

/// `()`, the one thing there is, or a tuple of all.
fn tuple(parts: &[impl quote::ToTokens]) -> TokenStream {
    match parts {
        [part] => quote!(#part),
        parts => quote!((#(#parts),*)),
    }
}
