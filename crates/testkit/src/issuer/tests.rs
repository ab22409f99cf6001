//! The throw-away issuer as its clients see it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use super::*;
use crate::programs::output_of;
use crate::{Scratch, available, require};

fn with_issuer(test: &str, check: impl FnOnce(&Authority, &TokenIssuer)) {
    let scratch = Scratch::new("issuer").expect("scratch");
    let made = require("curl").and_then(|_| Authority::new(scratch.path()));
    if let Some(authority) = available(test, made) {
        let issuer = TokenIssuer::start_at(&authority, "/realm").expect("starts");
        check(&authority, &issuer);
    }
}

/// The body and the status that curl gets.
fn curl(authority: &Authority, url: &str) -> String {
    let mut command = Command::new("curl");
    command
        .args(["-s", "-w", "\n%{http_code}", "--cacert"])
        .arg(authority.ca_file())
        .arg(url);
    output_of(&mut command).unwrap_or_else(|error| error.to_string())
}

#[test]
fn discovery_leads_to_the_keys() {
    with_issuer("discovery_leads_to_the_keys", |authority, issuer| {
        let found = curl(authority, &format!("{}/.well-known/openid-configuration", issuer.url()));
        assert!(found.ends_with("200") && found.contains(&issuer.url()), "{found}");
        let base = issuer.url().replace("/realm", "");
        let keys = curl(authority, &format!("{base}/jwks"));
        assert!(keys.contains("rsa-1") && keys.contains("ec-1"), "{keys}");
        issuer.rotate_keys().expect("new keys");
        let keys = curl(authority, &format!("{base}/jwks"));
        assert!(keys.contains("rsa-2") && !keys.contains("rsa-1"), "{keys}");
        let asked = ["/realm/.well-known/openid-configuration", "/jwks", "/jwks"];
        assert_eq!(issuer.requests(), asked);
        let token = issuer.token().scope("storage.read:/").mint();
        assert_eq!(token.split('.').count(), 3);
        assert!(issuer.token().algorithm(TokenAlgorithm::None).mint().ends_with('.'));
    });
}

#[test]
fn it_misbehaves_as_told_and_recovers() {
    with_issuer("it_misbehaves_as_told_and_recovers", |authority, issuer| {
        let url = format!("{}/.well-known/openid-configuration", issuer.url());
        issuer.set_mode(IssuerMode::Failing);
        assert!(curl(authority, &url).ends_with("500"));
        issuer.set_mode(IssuerMode::Redirect("https://localhost:1/".to_owned()));
        assert!(curl(authority, &url).ends_with("302"));
        issuer.set_mode(IssuerMode::Large);
        assert!(curl(authority, &url).len() > 10_000_000);
        issuer.set_mode(IssuerMode::Dead);
        // The port closes as soon as the acceptor has seen it.
        while TcpStream::connect(issuer.shared.address).is_ok() {
            thread::yield_now();
        }
        issuer.set_mode(IssuerMode::Hang);
        let mut silent = loop {
            if let Ok(stream) = TcpStream::connect(issuer.shared.address) {
                break stream;
            }
            thread::yield_now();
        };
        silent.write_all(b"anything").expect("taken");
        issuer.set_mode(IssuerMode::Well);
        // What hung is closed when the mode changes; how does not matter.
        let _ = silent.read(&mut [0; 16]);
        assert!(curl(authority, &url).ends_with("200"));
    });
}
