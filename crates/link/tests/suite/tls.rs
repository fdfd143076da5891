//! Calls over TLS, and all that can be wrong with certificates.
#![cfg(feature = "tls")]

mod certificates;

use std::sync::Arc;
use std::time::Duration;

use link::tls::{
    ALPN, Certificate, ClientTls, ClientTlsConfig, Clients, Pem, ServerTls, ServerTlsConfig,
    TlsError, rustls,
};
use link::{Client, ClientConfig, Listening, Server, ServerConfig, SetupError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use self::certificates::{
    Authority, ECHO, Subject, WHO, client_tls, connect, echo, fails_because, serve, server_tls,
};

async fn who(client: &Client) -> String {
    String::from_utf8(client.call(&WHO, Vec::new()).await.unwrap()).unwrap()
}

/// Waits until something is so, and not for ever.
async fn until(what: impl Fn() -> bool) {
    let poll = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), poll).await.expect("the test hangs");
}

/// Waits until as many clients as that were refused.
async fn refused(server: &Listening, n: usize) {
    until(|| server.n_failed_handshakes() == n).await;
}

/// Times may be as long as a `Duration` can be.
#[tokio::test]
async fn a_client_may_wait_for_ever() {
    let authority = Authority::new();
    let tls = server_tls(authority.localhost().certificate(), Clients::Unknown);
    let server = serve(Some(tls)).await;
    let config = ClientConfig {
        tls: Some(client_tls(authority.ca(), None)),
        timeout: Some(Duration::MAX),
        connect_timeout: Duration::MAX,
        min_backoff: Duration::MAX,
        max_backoff: Duration::MAX,
        keepalive: Duration::MAX,
        ping_timeout: Duration::MAX,
        ..ClientConfig::default()
    };
    let client = Client::connect_with(server.local_addr(), config).await.unwrap();
    assert_eq!(who(&client).await, "nobody");
}

#[tokio::test]
async fn calls_over_tls_small_large_and_many() {
    let authority = Authority::new();
    let tls = server_tls(authority.localhost().certificate(), Clients::Unknown);
    let server = serve(Some(tls)).await;
    let client = connect(&server, Some(client_tls(authority.ca(), None))).await.unwrap();
    assert_eq!(who(&client).await, "nobody");

    let large: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    assert!(client.call(&ECHO, large.clone()).await.unwrap() == large);

    let calls = (0..100_u8).map(|caller| {
        let echo = client.bind(&ECHO);
        tokio::spawn(async move {
            for n in 0..100_u8 {
                assert_eq!(echo.call(vec![caller, n]).await.unwrap(), [caller, n]);
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    client.close(Duration::from_secs(5)).await;
    assert!(server.shutdown(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn several_large_messages_share_a_connection_both_ways() {
    let authority = Authority::new();
    let tls = server_tls(authority.localhost().certificate(), Clients::Unknown);
    let server = serve(Some(tls)).await;
    let client = connect(&server, Some(client_tls(authority.ca(), None))).await.unwrap();
    let calls = (0..4_u8).map(|n| {
        let echo = client.bind(&ECHO);
        tokio::spawn(
            async move { echo.call(vec![n; 5_000_000]).await.unwrap() == vec![n; 5_000_000] },
        )
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap());
    }
}

#[test]
fn a_blocking_client_speaks_tls() {
    let authority = Authority::new();
    let tls = server_tls(authority.localhost().certificate(), Clients::Unknown);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(serve(Some(tls)));
    let tls = Some(client_tls(authority.ca(), None));
    let config = ClientConfig { tls, ..ClientConfig::default() };
    let client = Client::connect_blocking(server.local_addr(), config).unwrap();
    assert_eq!(client.bind(&ECHO).call(b"hello".to_vec()).wait().unwrap(), b"hello");
}

#[tokio::test]
async fn handlers_see_who_calls() {
    let authority = Authority::new();
    let caller = authority.sign(Subject {
        names: &["billing.internal", "*.billing.internal"],
        uri: Some("spiffe://mesh/ns/shop/sa/billing"),
        ..Subject::default()
    });
    let seen =
        r#"["billing.internal", "*.billing.internal"] ["spiffe://mesh/ns/shop/sa/billing"] 1"#;
    let known = || Some(client_tls(authority.ca(), Some(caller.certificate())));
    let unknown = || Some(client_tls(authority.ca(), None));
    let shown = || authority.localhost().certificate();

    let server = serve(Some(server_tls(shown(), Clients::Require { ca: authority.ca() }))).await;
    assert_eq!(who(&connect(&server, known()).await.unwrap()).await, seen);
    fails_because(connect(&server, unknown()).await, "the server requires a certificate");
    refused(&server, 1).await;

    let server = serve(Some(server_tls(shown(), Clients::Allow { ca: authority.ca() }))).await;
    assert_eq!(who(&connect(&server, known()).await.unwrap()).await, seen);
    assert_eq!(who(&connect(&server, unknown()).await.unwrap()).await, "nobody");

    // What nobody asked for and nobody verified is not an identity.
    let server = serve(Some(server_tls(shown(), Clients::Unknown))).await;
    assert_eq!(who(&connect(&server, known()).await.unwrap()).await, "nobody");
}

#[tokio::test]
async fn servers_refuse_certificates_of_strangers_and_old_ones() {
    let (authority, stranger) = (Authority::new(), Authority::named("Stranger"));
    for clients in [Clients::Require { ca: authority.ca() }, Clients::Allow { ca: authority.ca() }]
    {
        let tls = server_tls(authority.localhost().certificate(), clients);
        let server = serve(Some(tls)).await;
        let strange = stranger.sign(Subject { names: &["a.test"], ..Subject::default() });
        let old = Subject { names: &["a.test"], is_expired: true, ..Subject::default() };
        for bad in [strange, authority.sign(old)] {
            let tls = client_tls(authority.ca(), Some(bad.certificate()));
            let refusal = "the server refused our certificate";
            fails_because(connect(&server, Some(tls)).await, refusal);
        }
        refused(&server, 2).await;
        assert_eq!(server.n_calls(), 0);
    }
}

#[tokio::test]
async fn clients_refuse_wrong_servers() {
    let (authority, stranger) = (Authority::new(), Authority::named("Stranger"));
    let good = server_tls(authority.localhost().certificate(), Clients::Unknown);
    let server = serve(Some(good.clone())).await;

    let tls = client_tls(stranger.ca(), None);
    fails_because(connect(&server, Some(tls)).await, "not come from a trusted authority");

    let named = |name: &str| {
        let server_name = Some(name.to_owned());
        let config = ClientTlsConfig { server_name, ..ClientTlsConfig::with_ca(authority.ca()) };
        Some(ClientTls::new(config).unwrap())
    };
    fails_because(connect(&server, named("other.test")).await, "is for another name");
    connect(&server, named("localhost")).await.unwrap();

    let old = Subject { names: &["127.0.0.1"], is_expired: true, ..Subject::default() };
    good.replace(&server_tls(authority.sign(old).certificate(), Clients::Unknown));
    let tls = client_tls(authority.ca(), None);
    fails_because(connect(&server, Some(tls)).await, "the server's certificate is out of date");
    refused(&server, 3).await;
}

#[tokio::test]
async fn each_side_says_that_the_other_has_no_tls() {
    let authority = Authority::new();
    let tls = server_tls(authority.localhost().certificate(), Clients::Unknown);
    let with_tls = serve(Some(tls)).await;
    let plain = serve(None).await;
    fails_because(connect(&with_tls, None).await, "the peer speaks TLS, which is not set up");
    refused(&with_tls, 1).await;
    let tls = client_tls(authority.ca(), None);
    fails_because(connect(&plain, Some(tls)).await, "the server does not speak TLS");

    // Neither is any worse for it.
    connect(&with_tls, Some(client_tls(authority.ca(), None))).await.unwrap();
    connect(&plain, None).await.unwrap();
}

#[tokio::test]
async fn a_peer_that_keeps_silent_holds_up_nobody() {
    let authority = Authority::new();
    let tls = Some(server_tls(authority.localhost().certificate(), Clients::Unknown));
    let handshake_timeout = Duration::from_secs(2);
    let config = ServerConfig { tls, handshake_timeout, ..ServerConfig::default() };
    let server = Server::with_config(config).offer(echo()).listen("127.0.0.1:0").await.unwrap();
    let mut silent = TcpStream::connect(server.local_addr()).await.unwrap();
    let mut halting = TcpStream::connect(server.local_addr()).await.unwrap();
    // The beginning of a record whose rest never comes.
    halting.write_all(&[0x16, 3, 1, 1, 0, 1]).await.unwrap();

    let client = connect(&server, Some(client_tls(authority.ca(), None))).await.unwrap();
    assert_eq!(client.call(&ECHO, b"still here".to_vec()).await.unwrap(), b"still here");
    // Both are sent away when their time is over.
    assert_eq!(silent.read(&mut [0; 16]).await.unwrap(), 0);
    let _ = halting.read(&mut [0; 16]).await;
    refused(&server, 2).await;
    assert_eq!(client.call(&ECHO, b"still here".to_vec()).await.unwrap(), b"still here");
}

#[tokio::test]
async fn a_server_can_leave_while_clients_shake_hands() {
    let authority = Authority::new();
    let tls = server_tls(authority.localhost().certificate(), Clients::Unknown);
    let server = serve(Some(tls)).await;
    let mut silent = TcpStream::connect(server.local_addr()).await.unwrap();
    until(|| server.n_connections() != 0).await;
    assert!(server.shutdown(Duration::from_secs(5)).await);
    assert_eq!(silent.read(&mut [0; 16]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_client_does_not_wait_for_a_silent_server() {
    let authority = Authority::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = Some(client_tls(authority.ca(), None));
    let connect_timeout = Duration::from_millis(500);
    let config = ClientConfig { tls, connect_timeout, ..ClientConfig::default() };
    let result = Client::connect_with(listener.local_addr().unwrap(), config).await;
    fails_because(result, "did not finish the TLS handshake in time");
}

#[tokio::test]
async fn certificates_are_replaced_while_calls_run() {
    // An authority that renews its key keeps its name.
    let (old, new) = (Authority::new(), Authority::new());
    let folder = tempfile::TempDir::new().unwrap();
    let ca_file = folder.path().join("ca.pem");
    let tls = server_tls(old.localhost().write(folder.path()), Clients::Unknown);
    let server = serve(Some(tls.clone())).await;
    let first = connect(&server, Some(client_tls(old.ca(), None))).await.unwrap();

    // Half of a renewal is refused, and changes nothing.
    let renewed = new.localhost();
    std::fs::write(folder.path().join("cert.pem"), &renewed.chain).unwrap();
    assert!(matches!(tls.reload(), Err(TlsError::KeyMismatch { .. })));
    connect(&server, Some(client_tls(old.ca(), None))).await.unwrap();

    renewed.write(folder.path());
    tls.reload().unwrap();
    fails_because(
        connect(&server, Some(client_tls(old.ca(), None))).await,
        "not come from a trusted authority",
    );
    connect(&server, Some(client_tls(new.ca(), None))).await.unwrap();
    assert_eq!(first.call(&ECHO, b"as before".to_vec()).await.unwrap(), b"as before");

    // A client, too, learns of new authorities; it needs them to connect again.
    std::fs::write(&ca_file, old.ca_text()).unwrap();
    let tls = client_tls(Pem::file(&ca_file), None);
    let config = ClientConfig { tls: Some(tls.clone()), ..ClientConfig::default() };
    let client = Client::lazy(server.local_addr(), config).unwrap();
    std::fs::write(&ca_file, new.ca_text()).unwrap();
    tls.reload().unwrap();
    assert_eq!(client.call(&ECHO, b"again".to_vec()).await.unwrap(), b"again");
}

#[tokio::test]
async fn ready_made_configurations_are_taken_as_they_are() {
    let authority = Authority::new();
    let provider = || Arc::new(rustls::crypto::ring::default_provider());
    let versions: &[_] = &[&rustls::version::TLS12];
    let settings = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(authority.roots())
        .with_no_client_auth();
    let client_tls = ClientTls::from_rustls(Arc::new(settings));
    assert!(matches!(client_tls.reload(), Err(TlsError::NotReloadable)));
    let (chain, key) = authority.localhost().der();
    let settings = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let server_tls = ServerTls::from_rustls(Arc::new(settings));
    assert!(matches!(server_tls.reload(), Err(TlsError::NotReloadable)));
    let server = serve(Some(server_tls)).await;
    let client = connect(&server, Some(client_tls)).await.unwrap();
    assert_eq!(client.call(&ECHO, b"1.2".to_vec()).await.unwrap(), b"1.2");
}

/// A client of rustls alone sees version, ALPN, the link's first frame, and an orderly end.
#[tokio::test]
async fn a_server_says_goodbye_in_tls() {
    let authority = Authority::new();
    let tls = server_tls(authority.localhost().certificate(), Clients::Unknown);
    let server = serve(Some(tls)).await;
    let shake = |alpn: &[u8]| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut settings = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(authority.roots())
            .with_no_client_auth();
        settings.alpn_protocols = vec![alpn.to_vec()];
        let (connector, address) = (TlsConnector::from(Arc::new(settings)), server.local_addr());
        async move {
            let stream = TcpStream::connect(address).await.unwrap();
            connector.connect("localhost".try_into().unwrap(), stream).await
        }
    };
    assert!(shake(b"h2").await.is_err());

    let mut stream = shake(ALPN).await.unwrap();
    let session = stream.get_ref().1;
    assert_eq!(session.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
    assert_eq!(session.alpn_protocol(), Some(ALPN));
    // No HELLO, but a frame that fails the link: the server says why, and then that it is done.
    stream.write_all(&[0xff; 64]).await.unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).await.expect("a close_notify, or this is an error");
    assert!(said.windows(4).any(|bytes| bytes == b"DMSH"));
}

#[tokio::test]
async fn a_client_says_goodbye_in_tls() {
    let authority = Authority::new();
    let (chain, key) = authority.localhost().der();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let settings = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tls = Some(client_tls(authority.ca(), None));
    let config = ClientConfig { tls, ..ClientConfig::default() };
    let client = Client::lazy(listener.local_addr().unwrap(), config).unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(settings));
    let mut stream = acceptor.accept(stream).await.unwrap();
    let mut said = vec![0; 16 * 1024];
    assert!(stream.read(&mut said).await.unwrap() > 16);
    stream.write_all(&[0xff; 64]).await.unwrap();
    stream.read_to_end(&mut said).await.expect("a close_notify, or this is an error");
    drop(client);
}

#[test]
fn wrong_settings_name_the_file_and_the_fault() {
    let authority = Authority::new();
    let folder = tempfile::TempDir::new().unwrap();
    let good = authority.localhost().write(folder.path());
    let missing = Pem::file(folder.path().join("missing.pem"));
    let other = Pem::bytes(authority.localhost().key);
    let cut = Pem::bytes("-----BEGIN CERTIFICATE-----\nAAAA\n");
    let junk = Pem::bytes("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let refusal = |chain: &Pem, key: &Pem| {
        let certificate = link::tls::Certificate { chain: chain.clone(), key: key.clone() };
        let config = ServerTlsConfig { certificate, clients: Clients::Unknown };
        ServerTls::new(config).unwrap_err().to_string()
    };
    let cases = [
        (refusal(&missing, &good.key), "cannot read '", "missing.pem"),
        (refusal(&good.key, &good.key), "there is no certificate in '", "cert.key'"),
        (refusal(&good.chain, &good.chain), "there is no private key in '", "cert.pem'"),
        (refusal(&good.chain, &other), "does not belong to the certificate in '", "cert.pem'"),
        (refusal(&cut, &good.key), "the PEM text in memory", "line 1: what begins here has no"),
        (refusal(&junk, &good.key), "the certificate in the PEM text", "cannot be used"),
    ];
    for (text, fault, place) in cases {
        assert!(text.contains(fault) && text.contains(place), "{text}");
    }
    let text = ClientTls::new(ClientTlsConfig::with_ca(junk)).unwrap_err().to_string();
    assert!(text.contains("an authority in the PEM text in memory cannot be used"), "{text}");
    let secret = format!("{:?}", authority.localhost().certificate());
    assert!(!secret.contains("PRIVATE"), "{secret}");
}

#[tokio::test]
async fn a_host_without_a_certifiable_name_is_refused_at_once() {
    let tls = Some(client_tls(Authority::new().ca(), None));
    let config = ClientConfig { tls, ..ClientConfig::default() };
    let Err(error) = Client::lazy("not..a.name:7000", config) else {
        panic!("taken");
    };
    assert!(matches!(error, SetupError::Tls(TlsError::ServerName(name)) if name == "not..a.name"));
}

/// The commands of docs/certificates.md, run by a shell in a folder of their own.
fn by_the_recipe() -> tempfile::TempDir {
    let page = include_str!("../../../../docs/certificates.md");
    let script = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("sh")
        .args(["-e", "-c", script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    folder
}

fn pair(folder: &tempfile::TempDir, name: &str) -> Certificate {
    let file = |ending| Pem::file(folder.path().join(format!("{name}.{ending}")));
    Certificate { chain: file("pem"), key: file("key") }
}

#[tokio::test]
async fn certificates_by_the_recipe_work_both_ways() {
    let folder = by_the_recipe();
    let ca = || Pem::file(folder.path().join("ca.pem"));
    let tls = server_tls(pair(&folder, "server"), Clients::Require { ca: ca() });
    let server = serve(Some(tls)).await;
    let tls = client_tls(ca(), Some(pair(&folder, "client")));
    let client = connect(&server, Some(tls)).await.unwrap();
    assert!(who(&client).await.contains("\"shop.internal\""));
}

/// What openssl req -x509 makes is an authority, and no server's certificate.
#[tokio::test]
async fn an_authority_in_place_of_a_server_is_told_with_the_remedy() {
    let folder = by_the_recipe();
    let server = serve(Some(server_tls(pair(&folder, "ca"), Clients::Unknown))).await;
    let tls = client_tls(Pem::file(folder.path().join("ca.pem")), None);
    let error = connect(&server, Some(tls)).await.err().expect("refused");
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        text += &inner.to_string();
        source = inner.source();
    }
    assert!(text.contains("belongs to an authority (CA:TRUE)"), "{text}");
    assert!(text.contains("docs/certificates.md"), "{text}");
}
