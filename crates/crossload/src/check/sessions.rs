//! Who can show what over which protocol: tokens in clear text, and sessions of the XRootD protocol that somebody with
//! a credential cannot begin.

use config::AuthenticationMethod::{Gsi, Host, Token, Unix};
use config::ClearText;
use policy::AnonymousAccess;

use super::finding::Finding;
use super::lines::Lines;
use config::{Configuration, XrootTls};

/// Examines them.
pub(crate) fn check(configuration: &Configuration, lines: &Lines) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(clear_text(configuration, lines));
    if configuration.xroot.enabled {
        findings.extend(tokens(configuration, lines));
        findings.extend(certificates(configuration, lines));
        findings.extend(others(configuration, lines));
    }
    findings
}

/// Tokens that anyone on the way could read.
fn clear_text(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    if !configuration.takes_tokens() {
        return None;
    }
    let spot = lines.of("server", "clear_text_tokens");
    let has_certificate = configuration.server.certificate.is_some();
    Some(match (configuration.clear_text(), has_certificate) {
        (ClearText::Always, true) => Finding::warning(
            "tokens_in_clear_text",
            "tokens are taken in clear text from everywhere: others on the way can read and use them",
        )
        .at(spot)
        .change("remove server.clear_text_tokens, or set it to \"loopback\""),
        // That there is no certificate is a finding of its own.
        (ClearText::Always, false) => return None,
        (_, false) => Finding::warning(
            "tokens_shut_out",
            "there is no certificate and tokens are refused in clear text: nobody from elsewhere can use one",
        )
        .at(spot)
        .change("set server.certificate and server.key, or remove server.clear_text_tokens"),
        (ClearText::Loopback, true) => Finding::ok("tokens_encrypted", "tokens from elsewhere are taken over TLS only"),
        (ClearText::Never, true) => Finding::ok("tokens_encrypted", "tokens are taken over TLS only"),
    })
}

/// Clients that hold a token and cannot begin a session with it.
fn tokens(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    if !configuration.takes_tokens() {
        return None;
    }
    if configuration.authentication().contains(&Token) {
        return Some(Finding::ok(
            "xroot_tokens",
            "holders of tokens can come in over roots:// and root://",
        ));
    }
    let who = "holders of tokens cannot log in over the XRootD protocol (xrdcp, xrdfs)";
    let finding = if configuration.server.certificate.is_none() {
        Finding::note(
            "xroot_tokens_shut_out",
            format!("{who}: there is no TLS without a certificate"),
        )
        .at(lines.of("server", "certificate"))
        .change("set server.certificate and server.key")
    } else if configuration.xroot.tls == XrootTls::None {
        Finding::warning("xroot_tokens_shut_out", format!("{who}: TLS is switched off"))
            .at(lines.of("xroot", "tls"))
            .change("remove xroot.tls")
    } else {
        let says = format!("{who}: \"token\" is not among the ways to authenticate");
        Finding::warning("xroot_tokens_shut_out", says)
            .at(lines.of("xroot", "authentication"))
            .change("add \"token\" to xroot.authentication, or remove the key")
    };
    Some(finding)
}

/// Clients that hold a certificate and cannot begin a session with it in clear text.
fn certificates(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let ways = configuration.authentication();
    let can_judge = configuration.server.certificate.is_some() && configuration.x509.can_verify();
    if !can_judge || ways.contains(&Gsi) || configuration.xroot.authentication.is_none() {
        return None;
    }
    let says = "holders of certificates can log in over the XRootD protocol only where their client shows them in TLS: \
                \"gsi\" is not among the ways to authenticate";
    let finding = Finding::note("xroot_certificates_by_tls_only", says).at(lines.of("xroot", "authentication"));
    Some(finding.change("add \"gsi\" to xroot.authentication, or remove the key"))
}

/// Clients that hold nothing, where an export is open to all.
fn others(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let ways = configuration.authentication();
    let lets_anybody_in = ways.is_empty() || ways.contains(&Unix) || ways.contains(&Host);
    let is_open = |access: AnonymousAccess| access != AnonymousAccess::None;
    let open = configuration.exports.iter().find(|export| is_open(export.anonymous))?;
    if lets_anybody_in {
        return None;
    }
    let says = format!(
        "{} is open to all, and clients without a credential cannot log in over the XRootD protocol",
        open.path
    );
    let finding = Finding::note("xroot_anonymous_shut_out", says).at(lines.of("xroot", "authentication"));
    Some(finding.change("add \"unix\" to xroot.authentication"))
}
