use super::*;
use crate::config::{AppConfig, parse};

const HEAD: &str = "[[registry]]\nkind = 'etcd'\n[link]\nlisten = '127.0.0.1:1'\n[[export]]\n\
    interface = 'a.B'\napp = 'http://h:8080'\n";

fn app(lines: &str) -> HttpAppConfig {
    let config = parse(&format!("{HEAD}{lines}"), "a.toml").unwrap_or_else(|e| panic!("{e}"));
    match &config.exports[0].app {
        AppConfig::Http(app) => (**app).clone(),
        AppConfig::Dubbo { .. } => panic!("not HTTP"),
    }
}

/// The only error in these lines, the first of which is line 8.
fn error(lines: &str) -> String {
    let errors = parse(&format!("{HEAD}{lines}"), "a.toml").expect_err(lines);
    let errors: Vec<String> = errors.as_slice().iter().map(ToString::to_string).collect();
    assert_eq!(errors.len(), 1, "{lines}: {errors:#?}");
    errors.into_iter().next().unwrap()
}

#[test]
fn an_app_needs_nothing_but_its_address() {
    let app = app("");
    assert_eq!(
        (&*app.origin.address(), &*app.origin.base, app.max_connections),
        ("h:8080", "", 200)
    );
    assert!(app.methods.is_empty() && app.health.path.is_none() && app.timeout.is_none());
    let in_place = JsonOptions { max_out_len: IN_PLACE_LEN, ..JsonOptions::default() };
    assert_eq!(app.json, in_place);
}

#[test]
fn apps_are_below_a_path_or_on_a_socket() {
    let origin = |url: &str| {
        let text = HEAD.replace("http://h:8080", url) + "health = '/up'\n";
        let config = parse(&text, "/etc/dubmesh/a.toml").unwrap_or_else(|e| panic!("{e}"));
        let AppConfig::Http(app) = &config.exports[0].app else { panic!("{url}") };
        let health = app.health.path.as_ref().map(ToString::to_string).unwrap();
        (app.origin.address(), app.origin.host(), health)
    };
    for (url, address, host, health) in [
        ("http://h", "h:80", "h:80", "/up"),
        ("http://h:81/", "h:81", "h:81", "/up"),
        ("http://[::1]:8080/base/path", "[::1]:8080", "[::1]:8080", "/base/path/up"),
        ("unix:/run/a.sock", "unix:/run/a.sock", "localhost", "/up"),
        ("unix:///run/a.sock", "unix:/run/a.sock", "localhost", "/up"),
        ("unix:a.sock", "unix:/etc/dubmesh/a.sock", "localhost", "/up"),
    ] {
        let expected = (address.to_owned(), host.to_owned(), health.to_owned());
        assert_eq!(origin(url), expected, "{url}");
    }
    for url in [
        "http://",
        "http://h:0",
        "http://a@h",
        "http://h/a?b",
        "http://h/{0}",
        "unix:",
        "dubbo://h:1/a",
        "dubbo://h",
        "ftp://h",
        "h:80",
    ] {
        let text = HEAD.replace("http://h:8080", url);
        let errors = parse(&text, "a.toml").expect_err(url).to_string();
        // What comes before an @ may be a password.
        let shown = url.replace("a@", "***@");
        let said = format!("\"{shown}\" is not the address of an app");
        assert!(errors.contains(&said) && !errors.contains('\n'), "{errors}");
    }
}

#[test]
fn tls_needs_files_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.pem");
    std::fs::write(&broken, "no PEM").unwrap();
    let broken = broken.display().to_string();
    for (url, lines, expected) in [
        (
            "http://h",
            "ca_file = 'a'",
            "export.ca_file: does not belong here; only for app = \"https://",
        ),
        ("dubbo://h:1", "server_name = 'a'", "export.server_name: does not belong here"),
        ("https://h", "ca_file = '/no/such/file'", "export.ca_file: cannot read /no/such/file"),
        (
            "https://h",
            &*format!("ca_file = '{broken}'"),
            "export.ca_file: there is no certificate in",
        ),
        ("https://h", "server_name = 'a b'", "export.server_name: 'a b' is neither"),
    ] {
        let text = format!("{}{lines}\n", HEAD.replace("http://h:8080", url));
        let errors = parse(&text, "a.toml").expect_err(lines).to_string();
        assert!(errors.contains(expected) && !errors.contains('\n'), "{errors}\n{expected}");
    }
    let text = format!("{}cert_file = '{broken}'\n", HEAD.replace("http:", "https:"));
    let errors = parse(&text, "a.toml").unwrap_err().to_string();
    assert!(errors.contains("export.cert_file: has no effect without key_file"), "{errors}");
}

#[test]
fn methods_inherit_from_their_export() {
    let app = app("headers = { x-a = '1', x-b = '2' }\nerrors = { 404 = 'null', 5xx = 'busy' }\n\
        dates = 'millis'\nbig_numbers = 'text'\nclass_names = true\nhealth = '/up'\n\
        [[export.class]]\nname = 'a.C'\nfields = { at = 'java.util.Date' }\n\
        [[export.method]]\nname = 'm'\ntypes = ['int']\nparams = ['id']\npath = 'PUT  /m/{id}'\n\
        returns = 'java.util.List<a.C>'\ntimeout_ms = 5\nheaders = { x-b = '3' }\n\
        errors = { 404 = 'a.NotFound' }\n\
        [[export.method]]\nname = 'm'\ntypes = []\npath = 'GET /m'\n");
    use crate::config::http_app::method::MethodMatch;
    let MethodMatch::One(method) = app.methods.find("m", Some("I")) else { panic!("no method") };
    assert_eq!((&method.http, method.body), (&http::Method::PUT, BodyShape::Array));
    assert_eq!(method.timeout, Some(Duration::from_millis(5)));
    let values: Vec<_> = method.headers.iter().map(|(_, value)| value.to_str().unwrap()).collect();
    assert_eq!(values, ["1", "2", "3"]);
    let rule = |status| method.errors.rule(http::StatusCode::from_u16(status).unwrap());
    assert_eq!(rule(404), Some(&ErrorRule::Exception("a.NotFound".into())));
    assert_eq!(rule(500), Some(&ErrorRule::Status(DubboStatus::ServerThreadpoolExhausted)));
    let MethodMatch::One(get) = app.methods.find("m", Some("")) else { panic!("no method") };
    assert_eq!(get.body, BodyShape::None);
    assert!(app.json.class_name && app.json.big_numbers_as_text && app.classes.knows("a.C"));
}

#[test]
fn a_method_without_a_path_is_where_every_method_is() {
    let app = app("[[export.method]]\nname = '$a'\ntypes = []\n");
    use crate::config::http_app::method::MethodMatch;
    let MethodMatch::One(method) = app.methods.find("$a", None) else { panic!("no method") };
    assert_eq!(method.path.render(|_| None).as_deref(), Ok("/a.B/%24a"));
}

#[test]
fn mistakes_are_named_with_their_line() {
    for (lines, expected) in [
        ("serialization = 'hessian2'", "a.toml:8: export.serialization: does not belong here"),
        ("health = 'up'", "a.toml:8: export.health: \"up\" is not a path"),
        ("timeout_ms = 0", "a.toml:8: export.timeout_ms: 0 is out of range"),
        ("headers = { 'a b' = '1' }", "a.toml:8: export.headers.a b: cannot be a header"),
        ("headers = { Host = '1' }", "a.toml:8: export.headers.Host: is set by the agent"),
        ("headers = { a = 1 }", "a.toml:8: export.headers.a: found a number, expected a string"),
        ("errors = { 200 = 'null' }", "a.toml:8: export.errors.200: is not an error status"),
        ("errors = { 404 = 'nul' }", "a.toml:8: export.errors.404: \"nul\" is not known"),
        ("errors = 'null'", "a.toml:8: export.errors: found a text, expected a section"),
        ("[[export.class]]\nname = 'a.C'", "a.toml:8: export.class.fields: is missing"),
        (
            "[[export.class]]\nname = 'a.C'\nfields = { x = 'List<' }",
            "a.toml:10: export.class.fields.x: \"List<\" is not a type",
        ),
        ("[[export.method]]\npath = '/'", "a.toml:8: export.method.name: is missing"),
        (
            "[[export.method]]\nname = 'm'\npath = 'HEAD /'",
            "a.toml:10: export.method.path: \"HEAD\" is not an HTTP method",
        ),
        (
            "[[export.method]]\nname = 'm'\ntypes = ['int']\npath = '/{1}'",
            "a.toml:11: export.method.path: \"/{1}\" {1} is not a parameter of the method",
        ),
        (
            "[[export.method]]\nname = 'm'\ntypes = ['int']\npath = 'GET /'",
            "a.toml:11: export.method.path: argument 0 is never sent; put {0} into the path",
        ),
        (
            "[[export.method]]\nname = 'm'\ntypes = ['int']\nparams = ['a', 'b']\npath = '/'",
            "a.toml:11: export.method.params: 2 names for 1 types",
        ),
        (
            "[[export.method]]\nname = 'm'\ntypes = ['int', 'int']\npath = '/'\nbody = 'single'",
            "a.toml:12: export.method.body: 2 arguments are left for the body, expected exactly \
             one",
        ),
        (
            "[[export.method]]\nname = 'm'\ntypes = ['int']\npath = '/'\nbody = 'object'",
            "a.toml:12: export.method.body: an object needs the names of the parameters",
        ),
        (
            "[[export.method]]\nname = 'm'\npath = 'GET /'\nbody = 'array'",
            "a.toml:11: export.method.body: GET has no body",
        ),
        (
            "[[export.method]]\nname = 'm'\ntypes = ['void']\npath = '/'",
            "a.toml:10: export.method.types: a parameter or field cannot be void",
        ),
        (
            "[[export.method]]\nname = 'm'\nreturns = 'a b'\npath = '/'",
            "a.toml:10: export.method.returns: \"a b\" is not a type",
        ),
        (
            "[[export.method]]\nname = 'm'\npath = '/'\n[[export.method]]\nname = 'm'\npath = '/'",
            "a.toml:12: export.method.name: m(..) is already defined",
        ),
        (
            "[[export.method]]\nname = 'm'\npath = '/'\nretries = 1",
            "a.toml:11: export.method.retries: unknown key; did you mean",
        ),
    ] {
        let found = error(lines);
        assert!(found.starts_with(expected), "{lines}\n  {found}\n  {expected}");
    }
}

const SHOP: &str = "[[export.class]]\nname = 'a.Page<T>'\n\
    fields = { items = 'java.util.List<T>', next = 'a.Page<T>', first = 'T', n = 'int' }\n\
    [[export.class]]\nname = 'a.Shelf'\nfields = { pages = 'a.Page<a.Order>[]' }\n";

/// What is between < and > counts, in parameters, results and fields.
#[test]
fn type_arguments_are_taken_in() {
    use hessian::transcode::Schema;
    let app = app(&format!(
        "[[export.method]]\nname = 'm'\ntypes = ['a.Page<java.util.Date>']\n\
         returns = 'java.util.List<a.Page<? extends java.math.BigDecimal>>'\n{SHOP}"
    ));
    let field = |class: &str, field: &str| {
        app.classes.field_type(class, field).map(ToString::to_string).unwrap_or_default()
    };
    for (class, name, expected) in [
        ("a.Page<java.util.Date>", "items", "java.util.List<java.util.Date>"),
        ("a.Page<java.util.Date>", "first", "java.util.Date"),
        ("a.Page<java.math.BigDecimal>", "next", "a.Page<java.math.BigDecimal>"),
        ("a.Page<a.Order>", "items", "java.util.List<a.Order>"),
        ("a.Page", "first", "java.lang.Object"),
        ("a.Shelf", "pages", "a.Page<a.Order>[]"),
    ] {
        assert_eq!(field(class, name), expected, "{class}.{name}");
    }
}

#[test]
fn types_that_are_not_understood_are_named_with_their_place() {
    for (lines, expected, remedy) in [
        (
            "types = ['String']",
            "a.toml:10: export.method.types: \"String\": String has no package",
            "java.lang.String?",
        ),
        ("types = ['B']", "a.toml:10: export.method.types: \"B\": B has no package", "com.acme.B"),
        (
            "returns = 'Page<OrderDTO>'",
            "a.toml:10: export.method.returns: \"Page<OrderDTO>\": Page has no package",
            "did you mean a.Page?",
        ),
        (
            "returns = 'a.Page<OrderDTO>'",
            "a.toml:10: export.method.returns: \"a.Page<OrderDTO>\": OrderDTO has",
            "com.acme.OrderDTO",
        ),
        (
            "returns = 'a.Page<T>'",
            "a.toml:10: export.method.returns: \"a.Page<T>\": T has",
            "com.acme.T",
        ),
        (
            "returns = 'a.Page'",
            "a.toml:10: export.method.returns: \"a.Page\": a.Page needs types for its type parameters",
            "a.Page<?>",
        ),
        (
            "returns = 'a.Page<a.A,a.B>'",
            "a.toml:10: export.method.returns: \"a.Page<a.A,a.B>\": a.Page takes 1",
            "[[export.class]]",
        ),
        (
            "returns = 'a.Other<a.A>'",
            "a.toml:10: export.method.returns: \"a.Other<a.A>\": it is unknown",
            "[[export.class]]",
        ),
        (
            "returns = 'java.util.Map<java.lang.String>'",
            "a.toml:10: export.method.returns: ",
            "[[export.class]]",
        ),
        (
            "returns = 'java.util.List<int>'",
            "a.toml:10: export.method.returns: ",
            "[[export.class]]",
        ),
        (
            "returns = 'java.util.List<java.lang.Long'",
            "a.toml:10: export.method.returns: \"java.util.List<java.lang.Long\" is not a type: the type ends",
            "write",
        ),
    ] {
        let found = error(&format!("[[export.method]]\nname = 'm'\n{lines}\n{SHOP}"));
        assert!(found.starts_with(expected) && found.contains(remedy), "{lines}\n  {found}");
    }
    for (class, expected) in [
        (
            "name = 'a.C<T'\nfields = {}",
            "a.toml:9: export.class.name: \"a.C<T\" is not the name of a class",
        ),
        ("name = 'a.C<T,T>'\nfields = {}", "a.toml:9: export.class.name: "),
        ("name = 'a.C<a.D>'\nfields = {}", "a.toml:9: export.class.name: "),
        (
            "name = 'a.C<T>'\nfields = { x = 'U' }",
            "a.toml:10: export.class.fields.x: \"U\": U has no package, and is not a type parameter",
        ),
        (
            "name = 'a.C'\nfields = { x = 'B' }",
            "a.toml:10: export.class.fields.x: \"B\": B has no package",
        ),
        (
            "name = 'a.C'\nfields = { x = 'a.D<a.E>' }",
            "a.toml:10: export.class.fields.x: \"a.D<a.E>\": it is unknown",
        ),
    ] {
        let found = error(&format!("[[export.class]]\n{class}"));
        assert!(found.starts_with(expected), "{class}\n  {found}\n  {expected}");
    }
}

#[test]
fn a_dubbo_app_has_none_of_these_keys() {
    let dubbo = format!("{}health = '/'", HEAD.replace("http:", "dubbo:"));
    let errors = parse(&dubbo, "a.toml").unwrap_err().to_string();
    assert!(
        errors.contains("a.toml:8: export.health: does not belong here; only for app = \"http://")
    );
}
