//! The same door over TLS, which it recognises by the first byte.

use net::tls::ServerTls;
use policy::AnonymousAccess;
use storage::{Posix, PosixOptions};
use tempfile::TempDir;
use testkit::SelfSigned;

use crate::harness::{Server, export, pattern};

async fn server() -> (Server, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let made = SelfSigned::localhost().unwrap();
    let files = directory.path().join("files");
    std::fs::create_dir(&files).unwrap();
    let posix = Posix::open(&files, &PosixOptions::default()).unwrap();
    let server = Server::start(vec![export("/data", AnonymousAccess::Write, posix)], |settings| {
        settings.site.tls = Some(ServerTls::load(&made.certificate, &made.key).unwrap());
    })
    .await;
    (server, directory)
}

#[tokio::test]
async fn copies_go_over_tls_in_both_directions() {
    let ((here, _one), (there, _two)) = (server().await, server().await);
    let content = pattern(3_000_000);
    there.put("/data/f", &content).await;
    let url = |path: &str| there.url(path).replace("http:", "https:");
    let pull = format!("COPY /data/f\nSource: {}\n", url("/data/f"));
    assert_eq!(here.ask(&pull, b"").await.last_line(), "success: Created");
    assert!(here.ask("GET /data/f\n", b"").await.body == content);
    let push = format!("COPY /data/f\nDestination: {}\n", url("/data/g"));
    assert_eq!(here.ask(&push, b"").await.last_line(), "success: Created");
    assert!(there.ask("GET /data/g\n", b"").await.body == content);
    let served = there.log.request("GET").await;
    assert_eq!((served.security, served.bytes_out), ("TLSv1.3", 3_000_000));
    assert_eq!(there.log.request("PUT").await.security, "clear");
}
