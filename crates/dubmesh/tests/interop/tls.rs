//! Real Dubbo speaks TLS with agents, on both sides, and both sides show certificates.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::support;
use crate::support::{Agent, Layout, PATIENCE, TYPES, common, post, wait_until};
use interop_harness::{
    ConsumerOptions, DubboVersion, Etcd, JavaConsumer, JavaProvider, ProviderOptions, free_port,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

const VERSIONS: [DubboVersion; 2] = [DubboVersion::V2_7, DubboVersion::V3_3];

/// A certificate for 127.0.0.1 and the authority that it comes from, as files.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // A name of its own, or its certificates look as if they had signed themselves.
        authority.distinguished_name.push(DnType::CommonName, "Test Authority");
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        write("authority.pem", &issuer.pem());
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        write("own.pem", &own.signed_by(&key, &issuer).unwrap().pem());
        write("own.key", &key.serialize_pem());
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The lines of a section of TLS.
    fn lines(&self) -> String {
        let path = |name| self.path(name).display().to_string();
        format!(
            "ca_file = \"{}\"\ncert_file = \"{}\"\nkey_file = \"{}\"\n",
            path("authority.pem"),
            path("own.pem"),
            path("own.key")
        )
    }

    /// Dubbo's settings: `SslConfig`'s and the protocol's, as properties of the virtual machine.
    fn of_java(&self) -> Vec<OsString> {
        let property = |name: &str, path: &Path| {
            let mut text = OsString::from(format!("-Ddubbo.ssl.{name}="));
            text.push(path);
            text
        };
        let mut all = vec!["-Ddubbo.protocol.ssl-enabled=true".into()];
        for side in ["server", "client"] {
            for (name, file) in [
                ("key-cert-chain-path", "own.pem"),
                ("private-key-path", "own.key"),
                ("trust-cert-collection-path", "authority.pem"),
            ] {
                all.push(property(&format!("{side}-{name}"), &self.path(file)));
            }
        }
        all
    }
}

/// The provider says in the registry that it speaks TLS, and asks who calls.
#[test]
fn both_sides_of_an_agent() {
    let (etcd, certificates) = (Etcd::start().unwrap(), Certificates::new());
    for version in VERSIONS {
        let options = ProviderOptions {
            registry: Some(format!("etcd://{}", etcd.addr())),
            registry_session: support::SESSION,
            jvm_args: certificates.of_java(),
            ..ProviderOptions::default()
        };
        let provider = JavaProvider::start(version, options).unwrap();
        let (http, dubbo, lines) = (free_port(), free_port(), certificates.lines());
        let mut agent = Agent::start(
            "consumer",
            &format!(
                "{}[defaults.tls]\n{lines}\
                 [[ingress]]\nprotocol = \"http\"\nlisten = \"127.0.0.1:{http}\"\n\
                 [[ingress]]\nprotocol = \"dubbo\"\nlisten = \"127.0.0.1:{dubbo}\"\n\
                 [ingress.tls]\n{lines}",
                common("consumer", &etcd, Layout::Dubbo)
            ),
        );
        let types = ["x-dubbo-parameter-types: java.lang.String"];
        wait_until("a call by HTTP", || {
            let answer = post(agent.http(), &format!("/{TYPES}/text"), &types, "[\"hello\"]");
            (answer.status, &*answer.body) == (200, "\"hello\"")
        });
        let calls = ["text", "person", "people", "fail", "attachments", "text_70000"];
        let consumer = ConsumerOptions {
            calls: calls.map(str::to_owned).to_vec(),
            jvm_args: certificates.of_java(),
            ..ConsumerOptions::new(&format!("dubbo://127.0.0.1:{dubbo}?ssl-enabled=true"))
        };
        let printed = JavaConsumer::start(version, &consumer).unwrap().finish(PATIENCE);
        let printed = printed.unwrap_or_else(|error| panic!("{version:?}: {error}"));
        assert_eq!(printed.matches(" = ").count(), calls.len(), "{version:?}: {printed}");
        let endpoint = provider.addr().to_string();
        assert!(calls.len() as u64 <= agent.n_calls(&endpoint, "ok"), "they went to the provider");
        agent.terminate();
        agent.wait();
    }
}
