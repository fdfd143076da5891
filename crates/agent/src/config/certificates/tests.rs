//! When certificates are warned of, and whose.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use proptest::prelude::*;
use rcgen::{CertificateParams, DnType, KeyPair};

use super::*;
use crate::config::parse;
use crate::config::tests::GOOD;

/// 2021-01-01 and 2022-01-01 in seconds since 1970.
const FROM_S: i64 = 1_609_459_200;
const UNTIL_S: i64 = 1_640_995_200;

/// A certificate for 2021 and its key.
fn made(change: impl FnOnce(&mut CertificateParams)) -> (rcgen::Certificate, KeyPair) {
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2021, 1, 1);
    params.not_after = rcgen::date_time_ymd(2022, 1, 1);
    params.distinguished_name = rcgen::DistinguishedName::new();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap(), key)
}

fn named(params: &mut CertificateParams) {
    params.distinguished_name.push(DnType::CommonName, "users");
}

fn lasting(params: &mut CertificateParams) {
    params.not_after = rcgen::date_time_ymd(2999, 1, 1);
}

#[test]
fn a_certificate_is_good_until_two_weeks_before_its_end() {
    let (certificate, _) = made(named);
    let said = |now_s| check(certificate.der(), Path::new("a"), now_s).map(|it| it.problem);
    for (now_s, problem) in [
        (FROM_S - 1, Some("is not valid before 2021-01-01")),
        (FROM_S, None),
        (UNTIL_S - 14 * DAY_S, None),
        (UNTIL_S - 14 * DAY_S + 1, Some("expires in 13 days, on 2022-01-01")),
        (UNTIL_S - DAY_S, Some("expires in a day, on 2022-01-01")),
        (UNTIL_S, Some("expires in less than a day, on 2022-01-01")),
        (UNTIL_S + 1, Some("expired on 2022-01-01")),
    ] {
        let problem = problem.map(|it| format!("the certificate of CN=users in a {it}"));
        assert_eq!(said(now_s), problem, "{now_s}");
    }
}

#[test]
fn a_certificate_may_have_no_name_or_a_long_one() {
    let said = |change: fn(&mut CertificateParams)| {
        check(made(change).0.der(), Path::new("a"), UNTIL_S + 1).unwrap().problem
    };
    assert_eq!(said(|_| {}), "the certificate in a expired on 2022-01-01");
    let long = said(|params| params.distinguished_name.push(DnType::CommonName, "x\n".repeat(400)));
    assert!(long.len() < 170 && !long.contains('\n'), "{long}");
}

/// One that is still good says that a change of authorities is under way.
#[test]
fn authorities_are_warned_of_if_all_have_expired() {
    let (one, two, good) = (made(named).0, made(|_| {}).0, made(lasting).0);
    let said = |all: &[&rcgen::Certificate], now_s| {
        let all: Vec<_> = all.iter().map(|it| it.der().clone()).collect();
        check_authorities(&all, Path::new("ca"), now_s)
    };
    assert_eq!(said(&[], UNTIL_S + 1), None);
    assert_eq!(said(&[&one], UNTIL_S), None);
    let single = "the authority of CN=users in ca expired on 2022-01-01";
    assert_eq!(said(&[&one], UNTIL_S + 1).as_deref(), Some(single));
    let both = "all 2 authorities in ca have expired, the last one on 2022-01-01";
    assert_eq!(said(&[&one, &two], UNTIL_S + 1).as_deref(), Some(both));
    assert_eq!(said(&[&one, &good], UNTIL_S + 1), None);
    let strange = [one.der().clone(), CertificateDer::from(&b"strange"[..])];
    assert_eq!(check_authorities(&strange, Path::new("ca"), UNTIL_S + 1), None);
}

/// A folder with an expired certificate whose issuer is not valid yet, its key, and an expired
/// authority.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let (old, key) = made(named);
        let (early, _) = made(|params| {
            lasting(params);
            params.not_before = rcgen::date_time_ymd(2998, 1, 1);
        });
        fs::write(files.path("own.pem"), old.pem() + &early.pem()).unwrap();
        fs::write(files.path("ca.pem"), old.pem()).unwrap();
        fs::write(files.path("own.key"), key.serialize_pem()).unwrap();
        // There is a warning for that, too.
        fs::set_permissions(files.path("own.key"), fs::Permissions::from_mode(0o600)).unwrap();
        files
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn keys(&self) -> String {
        let [cert, key, ca] = ["own.pem", "own.key", "ca.pem"].map(|name| self.path(name));
        format!("cert_file = '{cert}'\nkey_file = '{key}'\nca_file = '{ca}'\n")
    }
}

/// The beginning of a configuration, to which the keys belong that stand below it.
fn sections() -> [(&'static str, String); 9] {
    let registry = |kind, rest| {
        format!(
            "[[ingress]]\nprotocol = 'http'\nlisten = '127.0.0.1:0'\n[[registry]]\n\
                 kind = '{kind}'\n{rest}"
        )
    };
    let export = |app| {
        format!(
            "{GOOD}[link]\nlisten = '127.0.0.1:0'\n[[export]]\ninterface = 'a.B'\napp = '{app}'\n"
        )
    };
    [
        ("ingress.tls", format!("{GOOD}[ingress.tls]\n")),
        ("admin.tls", format!("{GOOD}[admin.tls]\n")),
        ("link.tls", export("dubbo://h:1") + "[link.tls]\n"),
        ("defaults.tls", format!("{GOOD}[defaults.tls]\n")),
        ("cluster.tls", format!("{GOOD}[[cluster]]\ninterface = 'a.B'\n[cluster.tls]\n")),
        ("export", export("https://h:1")),
        ("registry", registry("etcd", "endpoints = ['https://h:1']\n")),
        ("registry", registry("zookeeper", "endpoints = ['h:1']\ntls = true\n")),
        ("registry", registry("kubernetes", "server = 'https://h:1'\n")),
    ]
}

#[test]
fn each_section_with_certificates_is_warned_of() {
    let files = Files::new();
    for (name, section) in sections() {
        let config = parse(&format!("{section}{}", files.keys()), "a.toml").unwrap();
        let warnings: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
        let [expired, early, ca] = &warnings[..] else { panic!("{section}: {warnings:?}") };
        let own =
            format!("{name}.cert_file: the certificate of CN=users in {}", files.path("own.pem"));
        assert!(expired.contains(&format!("{own} expired on 2022-01-01; {RENEW}")), "{expired}");
        assert!(early.contains("own.pem is not valid before 2998-01-01; check"), "{early}");
        let authority =
            format!("{name}.ca_file: the authority of CN=users in {}", files.path("ca.pem"));
        assert!(ca.contains(&format!("{authority} expired on 2022-01-01; ")), "{ca}");
        let of_registries = config.registry_certificates().into_iter().map(ShownChain::read);
        let chains = config.shown_chains(&of_registries.collect::<Vec<_>>());
        let [chain] = &chains[..] else { panic!("{section}: {chains:?}") };
        assert_eq!(chain.file.display().to_string(), files.path("own.pem"));
        assert_eq!(chain.expires_s(), Some(UNTIL_S), "{section}");
        let time = UNIX_EPOCH + Duration::from_secs(u64::try_from(UNTIL_S).unwrap() + 1);
        let said: Vec<_> = chain.out_of_date(time).map(|it| it.to_string()).collect();
        assert!(said.len() == 2 && said[0].ends_with(RENEW), "{said:?}");
    }
}

/// What the file has counts from the reload on, and where a listener still shows an old one, that.
#[test]
fn what_is_in_use_counts() {
    let files = Files::new();
    let keys = files.keys();
    let text = |more: &str| format!("{GOOD}[ingress.tls]\n{keys}{more}[defaults.tls]\n{keys}");
    let old = parse(&text(""), "a.toml").unwrap();
    let (new, key) = made(lasting);
    fs::write(files.path("own.pem"), new.pem()).unwrap();
    fs::write(files.path("own.key"), key.serialize_pem()).unwrap();
    let expiry = |config: &Config| config.shown_chains(&[])[0].expires_s().unwrap();
    assert_eq!(expiry(&old), UNTIL_S);
    // A listener that asks others waits for a restart, and shows what it has. Endpoints do not.
    old.renew_tls(&mut parse(&text("clients = 'allow'\n"), "a.toml").unwrap());
    assert_eq!(expiry(&old), UNTIL_S);
    let mut same = parse(&text(""), "a.toml").unwrap();
    old.renew_tls(&mut same);
    assert!(UNTIL_S < expiry(&old));
    assert!(same.warnings.iter().all(|it| !it.key.contains("cert_file")), "{:?}", same.warnings);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), now_s: i64) {
        check(&bytes, Path::new("a"), now_s);
        check_authorities(&[CertificateDer::from(bytes)], Path::new("a"), now_s);
    }

    /// What is nearly a certificate gets further into the parser.
    #[test]
    fn no_damage_panics(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
        now_s: i64,
    ) {
        static WHOLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let mut bytes = WHOLE.get_or_init(|| made(named).0.der().to_vec()).clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        check(&bytes, Path::new("a"), now_s);
        bytes.truncate(end.index(bytes.len()));
        check(&bytes, Path::new("a"), now_s);
        check_authorities(&[CertificateDer::from(bytes)], Path::new("a"), now_s);
    }
}
