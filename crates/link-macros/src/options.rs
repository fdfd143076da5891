//! What may be in `#[link::service(...)]` and in `#[link(...)]`.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, LitStr, Path, Result, Token};

/// Codecs that `link::codec` has; their bare names mean these.
const KNOWN: [&str; 5] = ["Raw", "Postcard", "Json", "Hessian2", "Protobuf"];
/// Those of them that carry a single value of the right type, and never a tuple.
const ONE_VALUE: [&str; 2] = ["Raw", "Protobuf"];
/// A set has at most so many.
const MAX_CODECS: usize = 4;

/// What is at the trait.
pub(crate) struct ServiceOptions {
    pub name: Option<LitStr>,
    pub codecs: Option<Codecs>,
    /// Where the crate `link` is.
    pub link: Path,
}

/// What is at a method.
#[derive(Default)]
pub(crate) struct MethodOptions {
    pub name: Option<LitStr>,
    pub codecs: Option<Codecs>,
    pub one_way: bool,
    pub idempotent: bool,
}

/// A set of codecs, as it was written.
#[derive(Clone)]
pub(crate) struct Codecs {
    paths: Vec<Path>,
    span: Span,
}

impl ServiceOptions {
    pub(crate) fn read(attribute: TokenStream) -> Result<Self> {
        let mut options = Self { name: None, codecs: None, link: syn::parse_quote!(::link) };
        let option = |meta: ParseNestedMeta<'_>| {
            if meta.path.is_ident("name") {
                once(&meta, options.name.is_some())?;
                options.name = Some(text(&meta)?);
            } else if meta.path.is_ident("codecs") {
                once(&meta, options.codecs.is_some())?;
                options.codecs = Some(Codecs::read(&meta)?);
            } else if meta.path.is_ident("crate") {
                options.link = meta.value()?.parse::<LitStr>()?.parse()?;
            } else {
                return Err(meta.error(
                    "a service has the options `name = \"...\"`, `codecs(...)` and `crate = \"...\"`",
                ));
            }
            Ok(())
        };
        syn::meta::parser(option).parse2(attribute)?;
        Ok(options)
    }
}

impl MethodOptions {
    /// Adds what one attribute says.
    pub(crate) fn read(&mut self, attribute: &Attribute) -> Result<()> {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("name") {
                once(&meta, self.name.is_some())?;
                self.name = Some(text(&meta)?);
            } else if meta.path.is_ident("codecs") {
                once(&meta, self.codecs.is_some())?;
                self.codecs = Some(Codecs::read(&meta)?);
            } else if meta.path.is_ident("one_way") {
                self.one_way = true;
            } else if meta.path.is_ident("idempotent") {
                self.idempotent = true;
            } else {
                return Err(meta.error(
                    "a method has the options `name = \"...\"`, `codecs(...)`, `one_way` and \
                     `idempotent`",
                ));
            }
            Ok(())
        })
    }
}

impl Codecs {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<Self> {
        let content;
        syn::parenthesized!(content in meta.input);
        let paths = Punctuated::<Path, Token![,]>::parse_terminated(&content)?;
        let (span, paths) = (meta.path.span(), paths.into_iter().collect::<Vec<_>>());
        if paths.is_empty() || paths.len() > MAX_CODECS {
            let text = format!("name one to {MAX_CODECS} codecs, the preferred one first");
            return Err(Error::new(span, text));
        }
        Ok(Self { paths, span })
    }

    /// The set as a type, which blames the method or trait that asked for it.
    pub(crate) fn set(&self, link: &Path) -> TokenStream {
        if let [path] = self.paths.as_slice()
            && path.is_ident("Serde")
        {
            return quote!(#link::codec::Serde);
        }
        let paths = self.paths.iter().map(|path| {
            let is_known = path.get_ident().is_some_and(|ident| KNOWN.iter().any(|k| ident == k));
            if is_known { quote!(#link::codec::#path) } else { quote!(#path) }
        });
        quote_spanned!(self.span=> (#(#paths,)*))
    }

    /// A codec among these that cannot carry several arguments.
    pub(crate) fn carrying_one_value(&self) -> Option<&Path> {
        let is_such = |path: &&Path| {
            path.segments.last().is_some_and(|last| ONE_VALUE.iter().any(|one| last.ident == one))
        };
        self.paths.iter().find(is_such)
    }
}

fn once(meta: &ParseNestedMeta<'_>, is_there: bool) -> Result<()> {
    if is_there { Err(meta.error("this option is given twice")) } else { Ok(()) }
}

fn text(meta: &ParseNestedMeta<'_>) -> Result<LitStr> {
    let text: LitStr = meta.value()?.parse()?;
    if text.value().is_empty() {
        return Err(Error::new(text.span(), "a name needs at least one character"));
    }
    Ok(text)
}
