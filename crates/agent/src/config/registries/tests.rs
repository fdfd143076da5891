//! `[[registry]]`: names, keys that contradict, secrets.

use std::fs;
use std::path::Path;

use registry::{ApplicationConfig, RegisterMode, RegistryConfig, RegistrySecret};

use crate::config::tests::{GOOD, assert_errors, assert_errors_behind_good, errors};
use crate::config::{load, parse};

#[test]
fn names_of_registries() {
    let two = format!("{GOOD}[[registry]]\nname = 'other'\nkind = 'etcd'\n");
    assert_errors(
        &two,
        &["a.toml:3: ingress.registry: is missing, and there are several registries; write \
           registry = \"...\" with one of main, other"],
    );
    assert_errors_behind_good(
        "registry = 'mian'",
        &["a.toml:6: ingress.registry: there is no registry \"mian\"; did you mean \"main\"?"],
    );
    assert_errors_behind_good(
        "registry = 'other'\n[[registry]]\nkind = 'etcd'",
        &[
            "a.toml:6: ingress.registry: there is no registry \"other\"; known registries: main, main",
            "a.toml:7: registry.name: \"main\" is the name of the registry in line 1; give each \
             registry a name of its own",
        ],
    );
}

#[test]
fn settings_of_etcd_that_contradict() {
    let etcd = |lines: &str| errors(&GOOD.replace("\"etcd\"\n", &format!("\"etcd\"\n{lines}\n")));
    let one = |lines: &str| {
        let errors = etcd(lines);
        assert_eq!(errors.len(), 1, "{lines}: {errors:?}");
        errors[0].clone()
    };
    assert!(one("user = 'u'").contains("registry.user: is set, but there is no password; add"));
    assert!(one("password = 'p'").contains("registry.password: is set, but there is no user; add"));
    assert!(one("endpoints = []").contains("registry.endpoints: is not a list of strings; write"));
    assert!(one("endpoints = ['a:1']").contains("\"a:1\" is not an address of etcd; write http"));
    assert!(one("root = '/a'").contains("registry.root: \"/a\" is not one name without slashes"));
    assert!(one("path = 'a'").contains("registry.path: does not belong here; remove it; only"));
    assert!(one("lease_ttl_s = 1").contains("1 is out of range; write a whole number from 3 to"));
    assert!(one("server_name = 'a'").contains("has no effect, because no endpoint is https"));
    assert!(one("endpoints = ['https://a:1']").contains("registry.ca_file: is missing, and https"));
    assert!(one("user = 'u'\npassword_file = '/tmp/no/file'").contains("cannot read ***: No such"));
    let contest = one("layout = 'contest'\nregister_mode = 'all'");
    assert!(contest.contains("has no effect with layout = \"contest\""), "{contest}");
    // What is in it is looked at when the registry is opened.
    let empty = tempfile::NamedTempFile::new().unwrap();
    let file = empty.path().display();
    let both = etcd(&format!("endpoints = ['https://a:1', 'http://a:2']\nca_file = '{file}'"));
    assert!(both[0].contains("some members use http, others https"), "{both:?}");
    let cert = format!("endpoints = ['https://a:1']\nca_file = '{file}'\ncert_file = '{file}'");
    let alone = etcd(&cert);
    assert!(alone[0].contains("registry.cert_file: has no effect without key_file; add key_file"));
    let unusable = one(&format!("{cert}\nkey_file = '{file}'"));
    assert!(unusable.contains("there is no certificate in"), "{unusable}");
}

/// They are used when the registry is reached, but then nobody looks at the terminal.
#[test]
fn files_of_tls_that_cannot_work_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["own", "other"] {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2999, 1, 1);
        fs::write(path(&format!("{name}.pem")), params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    fs::write(path("junk.pem"), "junk").unwrap();
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n\
                     -----END ENCRYPTED PRIVATE KEY-----\n";
    fs::write(path("encrypted.key"), encrypted).unwrap();
    for (kind, how) in [
        ("etcd", "endpoints = ['https://a:1']"),
        ("zookeeper", "tls = true"),
        ("nacos", "tls = true"),
        ("kubernetes", "server = 'https://a:1'"),
    ] {
        let said = |[ca, cert, key]: [&str; 3]| {
            let files = format!(
                "ca_file = '{}'\ncert_file = '{}'\nkey_file = '{}'",
                path(ca),
                path(cert),
                path(key)
            );
            let lines = format!("\"{kind}\"\n{how}\n{files}\n");
            errors(&GOOD.replace("\"etcd\"\n", &lines))
        };
        assert_eq!(said(["own.pem", "own.pem", "own.key"]), Vec::<String>::new(), "{kind}");
        for (files, expected) in [
            (["junk.pem", "own.pem", "own.key"], "registry.ca_file: there is no certificate in"),
            (["own.pem", "own.pem", "other.key"], "registry.key_file: the private key in"),
            (["own.pem", "own.pem", "encrypted.key"], "has a passphrase, and cannot be read"),
        ] {
            let said = said(files);
            assert_eq!(said.len(), 1, "{kind}: {said:?}");
            assert!(said[0].contains(expected), "{kind}: {said:?}");
        }
    }
}

#[test]
fn settings_of_zookeeper() {
    let of = |lines: &str| GOOD.replace("\"etcd\"\n", &format!("\"zookeeper\"\n{lines}\n"));
    let one = |lines: &str| {
        let errors = errors(&of(lines));
        assert_eq!(errors.len(), 1, "{lines}: {errors:?}");
        errors[0].clone()
    };
    assert!(one("endpoints = ['zk://a:1']").contains("is not an address of ZooKeeper; write HOST"));
    let hidden = one("endpoints = ['u:s3cret@a']");
    assert!(hidden.contains("\"a\" is not an address"), "{hidden}");
    assert!(one("chroot = 'a'").contains("\"a\" is not a path; write a path such as"));
    assert!(one("chroot = '/a//b'").contains("is not a path"));
    assert!(one("root = '/a'").contains("registry.root: \"/a\" is not one name without slashes"));
    assert!(one("acl = 'creator'").contains("registry.acl: needs a user; add"));
    assert!(one("user = 'u'").contains("registry.user: is set, but there is no password; add"));
    assert!(one("server_name = 'a'").contains("registry.server_name: has no effect without tls"));
    assert!(one("session_timeout_ms = 999").contains("whole number from 1000 to 3600000"));
    assert!(one("max_message_bytes = 1").contains("1 is out of range; write a whole number from"));
    assert!(one("lease_ttl_s = 9").contains("remove it; only kind = \"etcd\" has it"));
    assert!(
        one("instances_root = 'a b'").contains("registry.instances_root: \"a b\" is not one name")
    );
    assert!(one("register_mode = 'both'").contains("registry.register_mode: \"both\""));
    let error = one("provided_by = { 'a.B' = 'x, a/b' }");
    assert!(error.contains("registry.provided_by.a.B: is not a list of applications"), "{error}");
    let config = parse(
        &of("endpoints = ['a:1', '[::1]:2']\nchroot = '/t/b'\nroot = 'rpc'\nuser = 'u'\n\
             password = 's3cret'\nacl = 'open'\nsession_timeout_ms = 5000\n\
             register_mode = 'instance'\nprovided_by = { 'a.B' = 'x, y' }"),
        "a.toml",
    )
    .unwrap();
    let RegistryConfig::ZooKeeper(zookeeper) = &config.registries[0].config else {
        panic!("not ZooKeeper");
    };
    assert_eq!(zookeeper.servers, ["a:1", "[::1]:2"]);
    assert_eq!((zookeeper.chroot.as_str(), zookeeper.root.as_str()), ("t/b", "rpc"));
    assert_eq!(zookeeper.session_timeout.as_secs(), 5);
    let ApplicationConfig { instances_root, provided_by, register, .. } = &zookeeper.applications;
    assert_eq!((instances_root.as_str(), *register), ("rpc", RegisterMode::Instance));
    assert_eq!(provided_by["a.B"], ["x", "y"]);
    let shown = config.shown(None).to_string();
    assert!(shown.contains("\"register_mode\":\"instance\""), "{shown}");
    assert!(shown.contains("\"chroot\":\"/t/b\"") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn settings_of_kubernetes() {
    let of = |lines: &str| GOOD.replace("\"etcd\"\n", &format!("\"kubernetes\"\n{lines}\n"));
    let one = |lines: &str| {
        let errors = errors(&of(lines));
        assert_eq!(errors.len(), 1, "{lines}: {errors:?}");
        errors[0].clone()
    };
    assert!(one("server = 'h:1'").contains("\"h:1\" is not an address of an API server; write"));
    assert!(one("namespace = 'A'").contains("\"A\" is not a namespace; write its name"));
    assert!(one("server = 'http://h:1'\nserver_name = 'a'").contains("has no effect with http"));
    assert!(one("user = 'u'").contains("remove it; only kind = \"etcd\" or \"zookeeper\""));
    let error = one("namespace = '*'\nservices = { 'a.B' = 'orders' }");
    assert!(error.contains("registry.services.a.B: does not name a Service"), "{error}");
    let error = one("services = { 'no name' = 'orders' }");
    assert!(error.contains("is not the name of a service"), "{error}");
    let config = parse(
        &of("server = 'https://h:1'\nnamespace = '*'\nlabel_selector = 'mesh=yes'\n\
             annotations = false\nservices = { 'g/a.B:1.0' = 'shop/orders:rpc' }"),
        "a.toml",
    )
    .unwrap();
    let RegistryConfig::Kubernetes(kubernetes) = &config.registries[0].config else {
        panic!("not Kubernetes");
    };
    let service = &kubernetes.services[0];
    assert_eq!((service.namespace.as_deref(), &*service.name), (Some("shop"), "orders"));
    assert_eq!((service.port.as_deref(), kubernetes.annotations), (Some("rpc"), false));
    let shown = config.shown(None).to_string();
    assert!(shown.contains("{\"g/a.B:1.0\":\"shop/orders:rpc\"}"), "{shown}");
}

#[test]
fn secrets_and_paths_start_from_the_folder_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "from file\n").unwrap();
    let path = folder.path().join("a.toml");
    let text = GOOD.replace("\"etcd\"", "\"etcd\"\nuser = 'u'\npassword_file = 'secret'");
    fs::write(&path, text).unwrap();
    let config = load(&path).unwrap();
    let RegistryConfig::Etcd(etcd) = &config.registries[0].config else {
        panic!("not etcd");
    };
    assert_eq!(etcd.password, Some(RegistrySecret::of_file(folder.path().join("secret"))));
    fs::write(&path, GOOD.replace("\"etcd\"", "\"file\"\npath = 'list.toml'")).unwrap();
    let config = load(&path).unwrap();
    let RegistryConfig::File { path } = &config.registries[0].config else {
        panic!("not a file");
    };
    assert_eq!(*path, folder.path().join("list.toml"));
}

#[test]
fn a_list_may_be_in_the_configuration() {
    let ingress = "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n";
    let text = |service: &str| {
        format!("{ingress}[[registry]]\nkind = 'static'\n[[registry.service]]\n{service}")
    };
    let good = "interface = 'a.B'\ngroup = 'g'\nendpoints = ['dubbo://h:1?weight=2', 'tri://h:2']";
    let config = parse(&text(good), "a.toml").unwrap();
    let RegistryConfig::Static(services) = &config.registries[0].config else {
        panic!("not a list");
    };
    assert_eq!((services[0].service.to_string(), services[0].endpoints.len()), ("g/a.B".into(), 2));
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert!(warnings[0].contains("tri is not supported"), "{warnings:?}");
    for (service, word) in [
        ("endpoints = []", "interface: is missing"),
        ("interface = 'a.B'", "endpoints: is missing"),
        ("interface = 'a..B'\nendpoints = []", "interface"),
        ("interface = 'a.B'\nendpoints = ['h:1']", "endpoints: \"h:1\""),
        ("interface = 'a.B'\nendpoints = []\nweight = 1", "unknown key"),
    ] {
        let errors = errors(&text(service));
        assert!(errors.len() == 1 && errors[0].contains(word), "{errors:?}");
    }
    let none = errors(&format!("{ingress}[[registry]]\nkind = 'static'\n"));
    assert!(none[0].contains("service: is missing"), "{none:?}");
    let export =
        "[link]\nlisten = '127.0.0.1:0'\n[[export]]\ninterface = 'a.B'\napp = 'dubbo://h:1'";
    let export = errors(&format!("{}\n{export}", text("interface = 'a.B'\nendpoints = []")));
    assert!(export[0].contains("services cannot be registered in it"), "{export:?}");
}

#[test]
fn passwords_are_not_shown() {
    for line in [
        "endpoints = ['http://root:s3cret@h:2379']",
        "endpoints = ['http://root:s3@cret@h:2379']",
        "endpoints = ['root:s3cret@h:2379']",
        "user = 'u'\npassword = 12345",
        "user = 'u'\npassword = ['s3cret']",
        // What is not TOML is not quoted either.
        "user = 'u'\npassword = s3cret",
        "user = 'u'\npassword = 's3cret",
        "user = 'u'\npassword = \"s3cret\\q\"",
        "user = 'u'\npassword 's3cret'",
        "user = 'u'\npassword = 's3cret' x",
        "user = 'u'\npassword = 12345s3cret",
        "user = 'u'\npasswort = 's3cret'",
        "kind = 'nacos'\naccess_key = 'k'\nsecret_key = 12345",
        "kind = 'nacos'\naccess_key = 'k'\nsecret_key = s3cret",
    ] {
        let text = GOOD.replace("\"etcd\"", &format!("\"etcd\"\n{line}"));
        let errors = errors(&text);
        assert!(!errors.is_empty());
        assert!(
            errors.iter().all(|it| !it.contains("cret") && !it.contains("12345")),
            "{errors:?}"
        );
    }
    let app = "[link]\nlisten = \"127.0.0.1:30880\"\n[[export]]\ninterface = 'a.B'\napp = 'http://u:s3cret@h'";
    let errors = errors(&format!("{GOOD}{app}"));
    assert!(errors[0].contains("\"http://***@h\" is not the address"), "{errors:?}");
}

/// Whoever reads a pipe waits for its writer, and a device has no end.
#[test]
fn a_file_with_a_secret_is_one_short_line() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, path) = (folder.path().join("secret"), folder.path().join("a.toml"));
    let loaded = |keys: &str| {
        fs::write(&path, GOOD.replace("\"etcd\"", &format!("\"nacos\"\n{keys}"))).unwrap();
        load(&path).map_err(|errors| errors.to_string())
    };
    let keys =
        ["user = 'u'\npassword_file = 'secret'", "access_key = 'a'\nsecret_key_file = 'secret'"];
    for (text, problem) in [
        (&b"a\0b\n"[..], "it has a NUL, which no secret has; write one line of text into it"),
        (b"a\nb\n", "it has more than one line; a secret is one line; write one line"),
        (&[b'a'; 70_000], "70000 bytes are over the limit of 65536; name a file"),
    ] {
        fs::write(&secret, text).unwrap();
        for keys in keys {
            let errors = loaded(keys).unwrap_err();
            assert!(errors.contains(problem), "{errors}");
        }
    }
    fs::write(&secret, "\u{feff}a b\r\n").unwrap();
    let config = loaded(keys[0]).unwrap();
    let RegistryConfig::Nacos(nacos) = &config.registries[0].config else { panic!("not nacos") };
    assert_eq!(nacos.password, Some(RegistrySecret::of_file(&secret)));
    fs::remove_file(&secret).unwrap();
    nix::unistd::mkfifo(&secret, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for keys in keys {
        let device = keys.replace("'secret'", "'/dev/zero'");
        for keys in [keys, &device] {
            let errors = loaded(keys).unwrap_err();
            assert!(errors.contains("it is not a regular file; name a file"), "{errors}");
        }
    }
}

/// A secret where its file belongs: it says what is wrong all the same.
#[test]
fn secrets_in_place_of_paths_are_not_shown() {
    const NO_FILE: &str = "***: No such file or directory (os error 2); name a";
    let pem = "-----BEGIN PRIVATE KEY-----\nhunter2/hunter2\n-----END PRIVATE KEY-----\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.toml").display().to_string();
    let registry =
        |kind, lines: &str| GOOD.replace("\"etcd\"\n", &format!("\"{kind}\"\n{lines}\n"));
    for (text, key, problem) in [
        (registry("etcd", "user = 'u'\npassword_file = 'hunter2'"), "password_file", NO_FILE),
        (registry("etcd", "user = 'u'\npassword_file = '/hunter2'"), "password_file", NO_FILE),
        (registry("etcd", "user = 'u'\npassword_file = 'hunter2/x='"), "password_file", NO_FILE),
        (registry("etcd", "password_file = 12345"), "password_file", "found a number, expected"),
        (
            registry("nacos", "access_key = 'a'\nsecret_key_file = 'hunter2'"),
            "secret_key_file",
            NO_FILE,
        ),
        (
            registry("kubernetes", "server = 'http://h:1'\ntoken_file = 'hunter2'"),
            "token_file",
            NO_FILE,
        ),
        (format!("{GOOD}[ingress.tls]\nkey_file = {pem:?}"), "key_file", "***: "),
    ] {
        let errors = parse(&text, &file).unwrap_err();
        let said = errors.as_slice().iter().find(|it| it.key.ends_with(key)).unwrap();
        assert!(said.to_string().contains(problem), "{said}");
        let all = errors.to_string();
        assert!(!all.contains("hunter2") && !all.contains("12345"), "{all}");
    }
    // The path of a file that is there, or could be, is no secret.
    std::fs::write(folder.path().join("empty"), "").unwrap();
    std::fs::create_dir(folder.path().join("tls")).unwrap();
    for (path, problem) in [("empty", "empty is empty"), ("tls/x", "/tls/x: No such")] {
        let text = registry("etcd", &format!("user = 'u'\npassword_file = '{path}'"));
        let errors = parse(&text, &file).unwrap_err().to_string();
        assert!(errors.contains(problem), "{errors}");
    }
}

#[test]
fn secrets_of_good_configurations_are_not_shown() {
    let list = "kind = 'static'\n[[registry.service]]\ninterface = 'a.B'\n\
                endpoints = ['dubbo://u:s3cret@h:1?token=s3cret&weight=2']\n";
    let ingress = "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\nregistry = 'list'\n\
                   [link]\nlisten = '127.0.0.1:0'\n[[export]]\ninterface = 'a.C'\n\
                   registry = 'own'\napp = 'http://h:1'\nheaders = { x-key = 's3cret' }\n";
    let text = format!(
        "[[registry]]\nname = 'own'\nkind = 'etcd'\n[[registry]]\nname = 'list'\n{list}{ingress}"
    );
    let config = parse(&text, "a.toml").unwrap();
    let shown = config.shown(None).to_string();
    assert!(shown.contains("dubbo://***@h:1?token=***&weight=2"), "{shown}");
    for text in [shown, format!("{config:?}")] {
        assert!(!text.contains("cret"), "{text}");
    }
}

#[test]
fn secrets_that_all_may_read_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (secret, file) = (folder.path().join("secret"), folder.path().join("a.toml"));
    fs::write(&secret, "x").unwrap();
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let warnings = |keys: &str, modes: [u32; 2]| {
        fs::write(&file, GOOD.replace("\"etcd\"", &format!("\"etcd\"\nuser = 'u'\n{keys}")))
            .unwrap();
        set_mode(&secret, modes[0]);
        set_mode(&file, modes[1]);
        load(&file).unwrap().warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let in_file = "password_file = 'secret'";
    let open = warnings(in_file, [0o644, 0o644]);
    assert_eq!(open.len(), 1);
    let said = format!(
        "a.toml:4: registry.password_file: every user may read {} (mode 644); chmod o-r {}",
        secret.display(),
        secret.display()
    );
    assert!(open[0].ends_with(&said), "{open:?}");
    assert_eq!(warnings(in_file, [0o640, 0o644]), Vec::<String>::new());
    let direct = warnings("password = 'x'", [0o600, 0o644]);
    assert!(
        direct.len() == 1 && direct[0].contains("registry.password: every user may read"),
        "{direct:?}"
    );
    assert_eq!(warnings("password = 'x'", [0o644, 0o600]), Vec::<String>::new());
}

#[test]
fn registries_made_of_others() {
    let of = |lines: &str| {
        let others = "[[registry]]\nname = 'zk'\nkind = 'zookeeper'\n[[registry]]\nname = 'nacos'\n\
                      kind = 'nacos'\n";
        let several = format!("[[registry]]\nname = 'all'\nkind = 'several'\n{lines}\n");
        format!("{others}{several}{}", GOOD.replace("[[ingress]]", "[[ingress]]\nregistry = 'all'"))
    };
    let one = |lines: &str| {
        let errors = errors(&of(lines));
        assert_eq!(errors.len(), 1, "{lines}: {errors:?}");
        errors[0].clone()
    };
    assert_eq!(errors(&of("of = ['zk', 'nacos']")), Vec::<String>::new());
    assert_eq!(errors(&of("of = ['nacos', 'zk']\nmode = 'failover'")), Vec::<String>::new());
    let shared = "shares = { nacos = 90, zk = 10 }\nzones = { zk = 'east' }";
    assert_eq!(errors(&of(&format!("of = ['nacos', 'zk']\n{shared}"))), Vec::<String>::new());
    let misspelt = one("of = ['zk', 'nacos']\nshares = { nacoz = 1 }");
    assert!(misspelt.contains("registry.shares.nacoz: is not one of"), "{misspelt}");
    assert!(misspelt.contains("did you mean \"nacos\"?"), "{misspelt}");
    for (share, said) in [("0", "from 1 to 1000"), ("1001", "from 1 to"), ("'1'", "from 1 to")] {
        let error = one(&format!("of = ['zk', 'nacos']\nshares = {{ zk = {share} }}"));
        assert!(error.contains("registry.shares.zk") && error.contains(said), "{error}");
    }
    let useless = one("of = ['zk', 'nacos']\nmode = 'failover'\nshares = { zk = 1 }");
    assert!(useless.contains("has no effect with mode"), "{useless}");
    assert!(one("of = ['zk', 'nacos']\nzones = 'x'").contains("expected a section"));
    assert!(one("").contains("registry.of: is missing; write the names of two or more other"));
    assert!(one("of = ['zk']").contains("registry.of: names only one registry"));
    assert!(one("of = ['zk', 'zk']").contains("registry.of: names \"zk\" twice"));
    let misspelt = one("of = ['zk', 'nacoz']");
    assert!(misspelt.contains("there is no registry \"nacoz\"; did you mean \"nacos\"?"));
    assert!(one("of = ['zk', 'all']").contains("\"all\" is made of others itself"));
    assert!(one("of = ['zk', 'nacos']\nroot = 'a'").contains("registry.root: does not belong"));
    assert!(one("of = ['zk', 'nacos']\nmode = 'both'").contains("registry.mode: "));
}
