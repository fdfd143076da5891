//! `#[link::service]`: a typed client and server from a trait.
//!
//! Use it from the crate `link`, which says how. Tokens in, tokens out; nothing here knows
//! sockets, and the code that comes out uses the public API of `link` alone.
//!
//! Files: `options` reads what is in the attributes; `model` checks the trait and says what
//! is wrong with it, all at once; `expand` writes the code and cannot fail.

mod expand;
mod model;
mod options;

use proc_macro2::TokenStream;

/// Turns a trait into a service: see `link::service`.
#[proc_macro_attribute]
pub fn service(
    attribute: proc_macro::TokenStream,
    item: proc_macro::TokenStream,
) -> proc_macro::TokenStream {
    service_from(attribute.into(), item.into())
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// The same on tokens that also exist outside of the compiler.
fn service_from(attribute: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let service = model::ServiceModel::read(attribute, item)?;
    Ok(expand::expand(&service))
}

#[cfg(test)]
mod tests;
