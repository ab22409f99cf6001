//! Tokens in clear text, and clients that cannot log in over the XRootD protocol.

use super::{Case, Site, bad};
use crate::check::finding::Severity::{Note, Warning};

const SESSIONS: [Case; 9] = [
    (
        "tokens in clear text from everywhere",
        |site| site.configure(|text| text.replace("[server]\n", "[server]\nclear_text_tokens = \"always\"\n")),
        &[(Warning, "tokens_in_clear_text", Some(2))],
    ),
    (
        "tokens in clear text from nowhere",
        |site| site.configure(|text| text.replace("[server]\n", "[server]\nclear_text_tokens = \"never\"\n")),
        &[],
    ),
    (
        "no TLS, and no tokens in clear text",
        |site| {
            site.configure(|text| {
                let plain = "clear_text_tokens = \"loopback\"\n";
                text.replace("certificate = \"host.pem\"\nkey = \"host.key\"\n", plain)
            })
        },
        &[
            (Warning, "no_certificate", Some(1)),
            (Warning, "tokens_shut_out", Some(4)),
            (Note, "xroot_tokens_shut_out", Some(1)),
        ],
    ),
    (
        "sessions without TLS",
        |site| site.configure(|text| text.to_owned() + "[xroot]\ntls = \"none\"\n"),
        &[(Warning, "xroot_tokens_shut_out", Some(22))],
    ),
    (
        "sessions by name only",
        |site| site.configure(|text| text.to_owned() + "[xroot]\nauthentication = [\"unix\"]\n"),
        &[(Warning, "xroot_tokens_shut_out", Some(22))],
    ),
    (
        "sessions by token only",
        |site| site.configure(|text| text.to_owned() + "[xroot]\nauthentication = [\"ztn\"]\n"),
        &[(Note, "xroot_anonymous_shut_out", Some(22))],
    ),
    (
        "certificates, and no way to log in with one",
        |site| {
            let more = "[xroot]\nauthentication = [\"token\", \"unix\"]\n[x509]\nsystem_authorities = true\n";
            site.configure(|text| text.to_owned() + more);
        },
        &[(Note, "xroot_certificates_by_tls_only", Some(22))],
    ),
    (
        "a node whose clients come with capabilities",
        |site| {
            let key = format!("{}\n", "c2VjcmV0".repeat(8));
            site.write_private("cluster.key", &key);
            let more = "[hand_over]\nkey_file = \"cluster.key\"\naccept_as = \"https://se.example.org:443\"\n\
                        [xroot]\nauthentication = []\n[x509]\nsystem_authorities = true\n";
            site.configure(|text| text.to_owned() + more);
        },
        &[],
    ),
    (
        "no sessions at all",
        |site| site.configure(|text| text.to_owned() + "[xroot]\nenabled = false\ntls = \"none\"\n"),
        &[],
    ),
];

#[test]
fn clients_that_cannot_log_in_are_found() {
    for (what, change, expected) in SESSIONS {
        let site = Site::new();
        change(&site);
        let findings = site.findings();
        assert_eq!(bad(&findings), expected, "{what}: {findings:#?}");
    }
}
