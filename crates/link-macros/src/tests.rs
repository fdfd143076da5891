//! What a trait becomes, and what is said about one that cannot become anything. That the code
//! compiles and works is tested in `link`.

use proc_macro2::TokenStream;
use quote::quote;

use super::service_from;

/// Everything that is said about this trait.
fn errors(attribute: TokenStream, item: TokenStream) -> Vec<String> {
    let errors = service_from(attribute, item).expect_err("this is no service");
    errors.into_iter().map(|error| error.to_string()).collect()
}

/// All that is said about a service with one method.
fn errors_of_method(method: &TokenStream) -> Vec<String> {
    errors(quote!(), quote!(trait Demo { #method }))
}

/// Checks that something is said about a method, once, and with these words.
#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "tests read better so")]
fn rejects(method: TokenStream, words: &str) {
    let (text, errors) = (method.to_string(), errors_of_method(&method));
    let [error] = errors.as_slice() else { panic!("{text}: {errors:#?}") };
    assert!(error.contains(words), "{text}: {error}");
}

/// The code of a service, without the spaces between tokens.
fn code(attribute: TokenStream, item: TokenStream) -> String {
    let code = service_from(attribute, item).unwrap();
    syn::parse2::<syn::File>(code.clone()).expect("items");
    code.to_string().replace(' ', "")
}

#[track_caller]
fn has(code: &str, part: &str) {
    assert!(code.contains(&part.replace(' ', "")), "no {part} in {code}");
}

#[test]
fn a_trait_becomes_a_service_and_a_client() {
    let code = code(
        quote!(),
        quote! {
            /// Says hello.
            pub trait Greeter {
                /// To one person.
                async fn greet(&self, name: String) -> String;
                async fn divide(&self, cx: &link::Context, a: i64, b: i64) -> Result<i64, Zero>;
                fn work(&self);
            }
        },
    );
    has(&code, "pub trait Greeter: ::core::marker::Sized");
    has(&code, "fn greet(&self, name: String) -> impl ::core::future::Future<Output = String>");
    has(&code, "fn work(&self);");
    has(&code, "pub struct GreeterClient");
    has(&code, r#"pub const SERVICE_NAME: &'static str = "Greeter";"#);
    has(&code, "pub const GREET: ::link::Method<String, String>");
    has(&code, "pub const DIVIDE: ::link::Method<(i64, i64), i64, Zero>");
    has(&code, "pub const WORK: ::link::Method<(), ()>");
    has(&code, "pub fn greet(&self, name: String) -> ::link::client::Call<'_, String, String>");
    has(&code, "pub fn divide(&self, a: i64, b: i64)");
    has(&code, ".method(&GreeterClient::GREET,");
    has(&code, ".fallible(&GreeterClient::DIVIDE,");
    has(&code, ".blocking(&GreeterClient::WORK,");
    assert_eq!(code.matches("Sayshello.").count(), 2, "docs of the trait and of the client");
    assert_eq!(code.matches("Tooneperson.").count(), 2, "docs of the method and of the call");
}

#[test]
fn options_name_the_wire_and_the_codecs() {
    let code = code(
        quote!(name = "demo.Users", codecs(Json, my::Text), crate = "mesh::link"),
        quote! {
            pub(crate) trait Users {
                #[link(name = "getUser", idempotent, codecs(Protobuf))]
                async fn get_user(&self, id: u64) -> User;
                #[link(one_way)]
                async fn log(&self, line: String);
                #[link(codecs(Serde))]
                async fn r#type(&self) -> String;
            }
        },
    );
    has(&code, r#"const SERVICE_NAME: &'static str = "demo.Users";"#);
    let one =
        "::new::<(mesh::link::codec::Protobuf,)>(Self::SERVICE_NAME, \"getUser\").idempotent()";
    has(&code, one);
    has(&code, "::new::<(mesh::link::codec::Json, my::Text,)>(Self::SERVICE_NAME, \"log\")");
    has(&code, "::new::<mesh::link::codec::Serde>(Self::SERVICE_NAME, \"type\")");
    has(&code, "pub(crate) const TYPE:");
    has(&code, "-> mesh::link::client::OneWay<'_, String, ()>");
    assert!(!code.contains("::link::codec::my"), "{code}");
    assert!(!code.contains("#[link"), "{code}");
}

#[test]
fn parameters_are_named_and_owned() {
    rejects(
        quote!(
            async fn f(&self, name: &str);
        ),
        "write `String` instead of `&str`",
    );
    rejects(
        quote!(
            async fn f(&self, data: &[u8]);
        ),
        "write `Vec<u8>` instead of `&[u8]`",
    );
    rejects(
        quote!(
            async fn f(&self, all: &mut Vec<a::B>);
        ),
        "write `Vec<a::B>` instead of `&mut Vec<a::B>`",
    );
    rejects(
        quote!(
            async fn f(&self, name: Option<&str>);
        ),
        "write `String` without a reference",
    );
    rejects(
        quote!(
            async fn f(&self, name: Cow<'_, str>);
        ),
        "nothing in them is borrowed",
    );
    rejects(
        quote!(
            async fn f(&self, name: impl Into<String>);
        ),
        "not `impl ...`",
    );
    rejects(
        quote!(
            async fn f(&self, other: Self);
        ),
        "does not know what `Self` is",
    );
    rejects(
        quote!(
            async fn f(&self, (a, b): (u8, u8));
        ),
        "write a plain name",
    );
    rejects(
        quote!(
            async fn f(&self, mut a: u8);
        ),
        "write a plain name",
    );
    rejects(
        quote!(
            async fn f(&self, _: u8);
        ),
        "write a plain name",
    );
    rejects(
        quote!(
            async fn f(&self, #[cfg(test)] a: u8);
        ),
        "cannot have attributes",
    );
    rejects(
        quote!(
            async fn f(&self, a: u8, cx: &Context);
        ),
        "right after `&self`",
    );
    rejects(
        quote!(
            async fn f(&self, cx: &mut link::Context);
        ),
        "write `&Context`",
    );
}

#[test]
fn replies_are_owned_and_errors_are_sent() {
    rejects(
        quote!(
            async fn f(&self) -> &str;
        ),
        "write `String` without a reference",
    );
    rejects(
        quote!(
            async fn f(&self) -> impl Iterator<Item = u8>;
        ),
        "not `impl ...`",
    );
    rejects(
        quote!(
            async fn f(&self) -> Self;
        ),
        "does not know what `Self` is",
    );
    rejects(
        quote!(
            async fn f(&self) -> io::Result<u8>;
        ),
        "write both types, `Result<T, E>`",
    );
    rejects(
        quote!(
            #[link(one_way)]
            async fn f(&self) -> u8;
        ),
        "cannot return anything",
    );
}

#[test]
fn the_service_is_shared_by_its_calls() {
    for receiver in [quote!(self), quote!(mut self), quote!(&mut self), quote!(self: Arc<Self>)] {
        rejects(quote!(async fn f(#receiver, a: u8);), "write `&self`");
    }
    rejects(
        quote!(
            async fn f(a: u8);
        ),
        "must be `&self`",
    );
}

#[test]
fn methods_are_plain_functions() {
    rejects(
        quote!(
            async fn f<T>(&self);
        ),
        "cannot be generic",
    );
    rejects(
        quote!(
            async fn f(&self)
            where
                u8: Copy;
        ),
        "cannot have a `where` clause",
    );
    rejects(
        quote!(
            async unsafe fn f(&self);
        ),
        "cannot be `unsafe`",
    );
    rejects(
        quote!(
            extern "C" fn f(&self);
        ),
        "cannot be `extern`",
    );
    rejects(
        quote!(
            #[cfg(unix)]
            async fn f(&self);
        ),
        "cannot have `cfg`",
    );
    rejects(
        quote!(
            type Item;
        ),
        "may contain only methods",
    );
    rejects(
        quote!(
            async fn new(&self);
        ),
        "#[link(name = \"new\")]",
    );
}

#[test]
fn names_are_told_apart() {
    let same = quote!(
        async fn a(&self);
        #[link(name = "a")]
        async fn b(&self);
    );
    rejects(same, "another method is already called \"a\" on the wire");
    rejects(
        quote!(
            async fn getUser(&self);
            async fn getuser(&self);
        ),
        "constant `GETUSER`",
    );
}

#[test]
fn options_are_known_and_stand_once() {
    rejects(
        quote!(
            #[link(oneway)]
            async fn f(&self);
        ),
        "`one_way` and `idempotent`",
    );
    rejects(
        quote!(
            #[link(name = "")]
            async fn f(&self);
        ),
        "at least one character",
    );
    rejects(
        quote!(
            #[link(name = "a", name = "b")]
            async fn f(&self);
        ),
        "is given twice",
    );
    rejects(
        quote!(
            #[link(codecs())]
            async fn f(&self);
        ),
        "one to 4 codecs",
    );
    rejects(
        quote!(
            #[link(codecs(Protobuf))]
            async fn f(&self, a: u8, b: u8);
        ),
        "Protobuf carries one value: give `f` a single parameter with all 2 in it",
    );
    let item = quote!(
        trait Demo {
            async fn f(&self);
        }
    );
    assert!(errors(quote!(version = "1"), item)[0].contains("a service has the options"));
}

#[test]
fn only_plain_traits_are_services() {
    let about = |item: TokenStream| errors(quote!(), item).join("\n");
    assert!(
        about(quote!(
            struct NoTrait;
        ))
        .contains("must be on a trait")
    );
    assert!(
        about(quote!(
            trait GenericTrait<T> {
                fn f(&self);
            }
        ))
        .contains("cannot be generic")
    );
    assert!(
        about(quote!(
            unsafe trait Unsafe {
                fn f(&self);
            }
        ))
        .contains("cannot be `unsafe`")
    );
    assert!(
        about(quote!(
            trait Bounded
            where
                u8: Copy,
            {
                fn f(&self);
            }
        ))
        .contains("cannot have a `where` clause")
    );
    assert!(
        about(quote!(
            trait Empty {}
        ))
        .contains("at least one method")
    );
}

#[test]
fn all_mistakes_are_said_at_once() {
    let errors = errors_of_method(&quote! {
        async fn a(self, name: &str);
        async fn b(&self) -> Result<u8>;
        const C: u8;
    });
    assert_eq!(errors.len(), 4, "{errors:#?}");
}

#[test]
fn streams_are_parameters_and_no_arguments() {
    let code = code(
        quote!(),
        quote! {
            trait Numbers {
                async fn count(&self, cx: &Context, to: u64, out: link::Sender<u64>) -> String;
                async fn sum(&self, items: Receiver<u64>) -> Result<u64, Overflow>;
                async fn both(&self, out: Sender<String>, by: u8, items: Receiver<u64>);
            }
        },
    );
    has(&code, "const COUNT: ::link::StreamMethod<u64, ::link::NoItems, u64, String>");
    has(&code, "= ::link::StreamMethod::down::<");
    has(&code, "const SUM: ::link::StreamMethod<(), u64, ::link::NoItems, u64, Overflow>");
    has(&code, "= ::link::StreamMethod::fallible_up::<");
    has(&code, "const BOTH: ::link::StreamMethod<u8, u64, String, ()>");
    has(&code, ".streaming(&NumbersClient::COUNT,");
    has(&code, "move |context, to, _, out|");
    has(&code, ".streaming_fallible(&NumbersClient::SUM,");
    has(&code, "move |_, by, items, out|");
    has(&code, "fn both(&self, by: u8) -> ::link::client::Open<'_, u8, u64, String, ()>");
}

#[test]
fn streams_are_told_what_they_cannot_be() {
    rejects(
        quote!(
            async fn f(&self, out: Sender);
        ),
        "`Sender<T>`",
    );
    rejects(
        quote!(
            async fn f(&self, out: Sender<&str>);
        ),
        "items are sent away",
    );
    rejects(
        quote!(
            async fn f(&self, a: Sender<u8>, b: Sender<u8>);
        ),
        "only one `Sender`",
    );
    rejects(
        quote!(
            async fn f(&self, out: &mut Sender<u8>);
        ),
        "write `Sender<u8>`",
    );
    rejects(
        quote!(
            fn f(&self, items: Receiver<u8>);
        ),
        "write `async fn`",
    );
    rejects(
        quote!(
            #[link(one_way)]
            async fn f(&self, out: Sender<u8>);
        ),
        "cannot stream",
    );
    rejects(
        quote!(
            #[link(idempotent)]
            async fn f(&self, out: Sender<u8>);
        ),
        "made again",
    );
}
