//! Clients that show certificates: rustls' own client and `openssl s_client`, both protocol
//! versions, every kind of key, sessions gone on with, and those who cannot prove what they show.

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use net::limits::CERTIFICATE_CHAIN_BYTES_MAX;
use net::tls::{ClientCertificates, ServerTls};
use net::{Stream, Waits};
use rcgen::{CertificateParams, CustomExtension, DnType, Issuer, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs as provider;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, HandshakeKind, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use testkit::SelfSigned;
use tokio::sync::mpsc;
use types::limits::CERTIFICATE_CHAIN_MAX;

/// proxyCertInfo with the language inheritAll (RFC 3820 §3.8).
const PROXY_INFO: [u64; 9] = [1, 3, 6, 1, 5, 5, 7, 1, 14];
const INHERIT_ALL: [u8; 14] = [0x30, 12, 0x30, 10, 6, 8, 0x2b, 6, 1, 5, 5, 7, 21, 1];

/// What the server saw of a client: its certificates, or why the handshake failed.
type Seen = Result<Option<Vec<CertificateDer<'static>>>, String>;

struct Server {
    address: SocketAddr,
    certificate: CertificateDer<'static>,
    seen: mpsc::UnboundedReceiver<Seen>,
}

impl Server {
    fn start(asks: ClientCertificates, waits: Waits) -> Self {
        let made = SelfSigned::localhost().unwrap();
        Self::with(&made.certificate, &made.key, asks, waits)
    }

    fn with(certificate: &Path, key: &Path, asks: ClientCertificates, waits: Waits) -> Self {
        let tls = ServerTls::asking(certificate, key, asks).unwrap();
        let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, seen) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (tls, tell) = (tls.clone(), tell.clone());
                tokio::spawn(async move {
                    match Stream::accept_tls(tcp, &tls, waits).await {
                        Ok(mut stream) => {
                            let _ = tell.send(Ok(stream.take_peer_certificates()));
                            assert_eq!(stream.peer_certificates(), None, "they were taken");
                            stream.queue(b"hello\n");
                            stream.close_lingering(1 << 20).await;
                        }
                        Err(error) => drop(tell.send(Err(format!("{error:?}")))),
                    }
                });
            }
        });
        Self {
            address,
            certificate: CertificateDer::from_pem_file(certificate).unwrap(),
            seen,
        }
    }

    async fn saw(&mut self) -> Seen {
        self.seen.recv().await.unwrap()
    }

    fn client(&self, version: &'static rustls::SupportedProtocolVersion, shown: Option<&Shown>) -> Arc<ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match shown {
            Some(shown) => builder.with_client_cert_resolver(Arc::new(shown.clone())),
            None => builder.with_no_client_auth(),
        })
    }
}

/// Connects, reads the greeting, and tells whether the session was a new one.
async fn visit(config: Arc<ClientConfig>, address: SocketAddr) -> std::io::Result<HandshakeKind> {
    let visit = move || {
        let name = ServerName::try_from("localhost").unwrap();
        let mut session = rustls::ClientConnection::new(config, name).unwrap();
        let mut socket = TcpStream::connect(address)?;
        let mut tls = rustls::Stream::new(&mut session, &mut socket);
        let mut greeting = String::new();
        tls.read_to_string(&mut greeting)?;
        assert_eq!(greeting, "hello\n");
        Ok(session.handshake_kind().unwrap())
    };
    tokio::task::spawn_blocking(visit).await.unwrap()
}

/// A chain that a client shows, and the key with which it signs. rustls itself would refuse to show
/// a proxy, as it cannot read it.
#[derive(Clone, Debug)]
struct Shown(Arc<CertifiedKey>);

impl Shown {
    fn new(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> Self {
        let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let signing = provider::sign::any_supported_type(&der).unwrap();
        Self(Arc::new(CertifiedKey::new(chain, signing)))
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        assert!(hints.is_empty(), "the server names authorities");
        Some(self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// A user's certificate and a proxy of it, which holds as many bytes of attributes as said.
fn proxy(keys: [&KeyPair; 2], attribute_bytes: usize) -> Vec<CertificateDer<'static>> {
    let made = certificates(keys, attribute_bytes);
    made.iter().map(|certificate| certificate.der().clone()).collect()
}

fn certificates(keys: [&KeyPair; 2], attribute_bytes: usize) -> [rcgen::Certificate; 2] {
    let mut user = CertificateParams::default();
    user.distinguished_name.push(DnType::CommonName, "Jane Doe");
    let user_certificate = user.self_signed(keys[0]).unwrap();
    let mut proxy = CertificateParams::default();
    proxy.distinguished_name.push(DnType::CommonName, "4711");
    let mut information = CustomExtension::from_oid_content(&PROXY_INFO, INHERIT_ALL.to_vec());
    information.set_criticality(true);
    let attributes = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 8005, 100], vec![5; attribute_bytes]);
    proxy.custom_extensions = vec![information, attributes];
    let proxy = proxy.signed_by(keys[1], &Issuer::from_params(&user, keys[0])).unwrap();
    [proxy, user_certificate]
}

fn rsa() -> KeyPair {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap()
}

fn versions() -> [&'static rustls::SupportedProtocolVersion; 2] {
    [&rustls::version::TLS12, &rustls::version::TLS13]
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_are_seen_as_shown_and_again_when_a_session_goes_on() {
    let mut server = Server::start(ClientCertificates::Optional, Waits::default());
    let keys = [
        rsa(),
        KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap(),
        KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap(),
        KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap(),
    ];
    for version in versions() {
        for key in &keys {
            let chain = proxy([&keys[0], key], 100);
            let config = server.client(version, Some(&Shown::new(chain.clone(), key)));
            let mut kinds = Vec::new();
            for _ in 0..3 {
                kinds.push(visit(config.clone(), server.address).await.unwrap());
                assert_eq!(server.saw().await.unwrap(), Some(chain.clone()));
            }
            assert_eq!(kinds[0], HandshakeKind::Full);
            assert_eq!(kinds[1..], [HandshakeKind::Resumed, HandshakeKind::Resumed]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_without_its_key_is_refused() {
    let mut server = Server::start(ClientCertificates::Optional, Waits::default());
    let (key, other) = (rsa(), rsa());
    let elliptic = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
    let chain = proxy([&key, &key], 0);
    for version in versions() {
        for wrong in [&other, &elliptic] {
            let config = server.client(version, Some(&Shown::new(chain.clone(), wrong)));
            let error = visit(config, server.address).await.unwrap_err();
            assert!(error.to_string().contains("alert"), "{error}");
            let why = server.saw().await.unwrap_err();
            assert!(
                why.contains("a signature is wrong") || why.contains("signed in a way that is not accepted"),
                "{why}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_shows_none_or_is_not_asked_is_served() {
    let key = rsa();
    let shown = Shown::new(proxy([&key, &key], 0), &key);
    for (asks, shown) in [
        (ClientCertificates::Optional, None),
        (ClientCertificates::Off, Some(&shown)),
    ] {
        let mut server = Server::start(asks, Waits::default());
        for version in versions() {
            visit(server.client(version, shown), server.address).await.unwrap();
            assert_eq!(server.saw().await.unwrap(), None);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chains_are_bounded_in_certificates_and_bytes() {
    let mut server = Server::start(ClientCertificates::Optional, Waits::default());
    let key = rsa();
    let mut long = proxy([&key, &key], 100);
    long.resize(CERTIFICATE_CHAIN_MAX, long[1].clone());
    let large = proxy([&key, &key], CERTIFICATE_CHAIN_BYTES_MAX - 4096);
    let mut too_long = long.clone();
    too_long.push(long[1].clone());
    let too_large = proxy([&key, &key], CERTIFICATE_CHAIN_BYTES_MAX);
    let garbage = vec![CertificateDer::from(vec![0x30, 3, 1, 2, 3])];
    for version in versions() {
        for chain in [&long, &large] {
            let config = server.client(version, Some(&Shown::new(chain.clone(), &key)));
            visit(config, server.address).await.unwrap();
            assert_eq!(server.saw().await.unwrap().as_ref(), Some(chain));
        }
        for chain in [&too_long, &too_large, &garbage] {
            let config = server.client(version, Some(&Shown::new(chain.clone(), &key)));
            visit(config, server.address).await.unwrap_err();
            server.saw().await.unwrap_err();
        }
    }
}

/// What a hundred clients do that do not mean well.
fn misbehave(kind: usize, address: SocketAddr, large: &Arc<ClientConfig>) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(address).ok()?;
    match kind % 4 {
        // A record that is no handshake.
        0 => socket.write_all(&[22, 3, 1, 0, 4, 9, 9, 9, 9]).ok()?,
        // Half of a greeting, and then silence.
        1 => socket.write_all(&[22, 3, 1, 2, 0, 1, 0, 1]).ok()?,
        // Nothing at all.
        2 => {}
        _ => {
            let name = ServerName::try_from("localhost").ok()?;
            let mut session = rustls::ClientConnection::new(large.clone(), name).ok()?;
            let _ = rustls::Stream::new(&mut session, &mut socket).read(&mut [0]);
        }
    }
    Some(socket)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_bad_handshakes_does_not_hold_up_good_ones() {
    let patience = Duration::from_secs(20);
    let waits = Waits {
        handshake: patience,
        ..Waits::default()
    };
    let server = Server::start(ClientCertificates::Optional, waits);
    let key = rsa();
    let too_large = proxy([&key, &key], CERTIFICATE_CHAIN_BYTES_MAX);
    let large = server.client(&rustls::version::TLS13, Some(&Shown::new(too_large, &key)));
    let good = server.client(&rustls::version::TLS13, Some(&Shown::new(proxy([&key, &key], 0), &key)));
    let address = server.address;
    let storm: Vec<_> = (0..100)
        .map(|kind| {
            let large = large.clone();
            std::thread::spawn(move || misbehave(kind, address, &large))
        })
        .collect();
    let began = std::time::Instant::now();
    for _ in 0..20 {
        visit(good.clone(), address).await.unwrap();
    }
    assert!(began.elapsed() < patience / 2, "good ones took {:?}", began.elapsed());
    // Those who are silent are there still: they were not what was waited for.
    let open = storm.into_iter().filter_map(|thread| thread.join().unwrap()).count();
    assert_eq!(open, 100);
}

/// Runs `openssl s_client` and returns what it prints.
fn s_client(address: SocketAddr, arguments: &[&str]) -> String {
    let output = Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &address.to_string(),
            "-servername",
            "localhost",
            "-ign_eof",
        ])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_shows_a_proxy_and_goes_on_with_its_session() {
    let mut server = Server::start(ClientCertificates::Optional, Waits::default());
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (user, own) = (rsa(), rsa());
    let made = certificates([&user, &own], 20_000);
    let pem = made.each_ref().map(rcgen::Certificate::pem);
    let chain: Vec<_> = made.iter().map(|certificate| certificate.der().clone()).collect();
    std::fs::write(path("proxy.pem"), pem[0].clone() + &own.serialize_pem() + &pem[1]).unwrap();
    std::fs::write(path("user.pem"), &pem[1]).unwrap();
    assert_eq!(CertificateDer::pem_file_iter(path("proxy.pem")).unwrap().count(), 2);
    for version in ["-tls1_2", "-tls1_3"] {
        let (proxy, user, session) = (path("proxy.pem"), path("user.pem"), path(version));
        let identity = [version, "-cert", &proxy, "-key", &proxy, "-cert_chain", &user];
        let address = server.address;
        for (option, word) in [("-sess_out", "New, "), ("-sess_in", "Reused, ")] {
            let arguments: Vec<String> = identity
                .iter()
                .chain(&[option, &session])
                .map(|word| (*word).to_owned())
                .collect();
            let printed = tokio::task::spawn_blocking(move || {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                s_client(address, &arguments)
            });
            let printed = printed.await.unwrap();
            assert_eq!(server.saw().await.unwrap(), Some(chain.clone()), "{version}: {printed}");
            assert!(
                printed.contains(word) && printed.contains("hello"),
                "{version}: {printed}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openssl_that_offers_one_group_is_served_or_told_which_ones_are() {
    // With TLS 1.2 a certificate on a curve would need that curve as well.
    let (directory, key) = (tempfile::tempdir().unwrap(), rsa());
    let made = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let [certificate_path, key_path] = ["host.pem", "host.key"].map(|name| directory.path().join(name));
    std::fs::write(&certificate_path, made.pem()).unwrap();
    // A key that others may read is refused.
    std::fs::write(&key_path, key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key_path, Permissions::from_mode(0o600)).unwrap();
    let mut server = Server::with(&certificate_path, &key_path, ClientCertificates::Off, Waits::default());
    let address = server.address;
    for version in ["-tls1_2", "-tls1_3"] {
        for (group, is_offered) in [("P-256", true), ("P-384", true), ("P-521", true), ("X448", false)] {
            let arguments = [version, "-groups", group];
            let printed = tokio::task::spawn_blocking(move || s_client(address, &arguments));
            let printed = printed.await.unwrap();
            match server.saw().await {
                Ok(_) => assert!(is_offered && printed.contains("hello"), "{version} {group}: {printed}"),
                Err(why) => {
                    assert!(!is_offered, "{version} {group}: {why}");
                    let names = "one of X25519, secp256r1, secp384r1, X25519MLKEM768, secp521r1";
                    assert!(why.contains(names), "{version} {group}: {why}");
                }
            }
        }
    }
}
