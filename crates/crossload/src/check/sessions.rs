//! Checks credentials by protocol: tokens in clear text, and clients that cannot log in over the
//! XRootD protocol.

use config::AuthenticationMethod::{Gsi, Host, Token, Unix};
use config::ClearText;
use policy::AnonymousAccess;

use super::finding::Finding;
use super::lines::Lines;
use config::{Configuration, XrootTls};

/// Checks them.
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

/// Tokens that can be read on the network.
fn clear_text(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    if !configuration.takes_tokens() {
        return None;
    }
    let position = lines.of("server", "clear_text_tokens");
    let has_certificate = configuration.server.certificate.is_some();
    Some(match (configuration.clear_text(), has_certificate) {
        (ClearText::Always, true) => Finding::warning(
            "tokens_in_clear_text",
            "tokens are accepted in clear text from everywhere: they can be read on the network and misused",
        )
        .at(position)
        .change("remove server.clear_text_tokens, or set it to \"loopback\""),
        // The missing certificate is reported elsewhere.
        (ClearText::Always, false) => return None,
        (_, false) => Finding::warning(
            "tokens_shut_out",
            "no certificate, and tokens are refused in clear text: no remote client can use one",
        )
        .at(position)
        .change("set server.certificate and server.key, or remove server.clear_text_tokens"),
        (ClearText::Loopback, true) => Finding::ok(
            "tokens_encrypted",
            "tokens are accepted over TLS only, except from loopback",
        ),
        (ClearText::Never, true) => Finding::ok("tokens_encrypted", "tokens are accepted over TLS only"),
    })
}

/// Clients with a token that cannot log in with it.
fn tokens(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    if !configuration.takes_tokens() {
        return None;
    }
    if configuration.authentication().contains(&Token) {
        return Some(Finding::ok(
            "xroot_tokens",
            "clients with a token can log in over roots:// and root://",
        ));
    }
    if takes_capabilities_only(configuration) {
        let says = "clients come from the redirector with a capability, and need no login over the XRootD protocol";
        return Some(Finding::ok("xroot_capabilities", says));
    }
    let who = "clients with a token cannot log in over the XRootD protocol (xrdcp, xrdfs)";
    let finding = if configuration.server.certificate.is_none() {
        Finding::note(
            "xroot_tokens_shut_out",
            format!("{who}: without a certificate there is no TLS"),
        )
        .at(lines.of("server", "certificate"))
        .change("set server.certificate and server.key")
    } else if configuration.xroot.tls == XrootTls::None {
        Finding::warning("xroot_tokens_shut_out", format!("{who}: TLS is off"))
            .at(lines.of("xroot", "tls"))
            .change("remove xroot.tls")
    } else {
        let says = format!("{who}: xroot.authentication lacks \"token\"");
        Finding::warning("xroot_tokens_shut_out", says)
            .at(lines.of("xroot", "authentication"))
            .change("add \"token\" to xroot.authentication, or remove the key")
    };
    Some(finding)
}

/// Whether this is a node whose clients need no login: its redirector has judged them.
fn takes_capabilities_only(configuration: &Configuration) -> bool {
    configuration.hand_over.accept_as.is_some() && configuration.authentication().is_empty()
}

/// Clients with a certificate that cannot log in with it in clear text.
fn certificates(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let ways = configuration.authentication();
    let can_judge = configuration.server.certificate.is_some() && configuration.x509.can_verify();
    let can_judge = can_judge && !takes_capabilities_only(configuration);
    if !can_judge || ways.contains(&Gsi) || configuration.xroot.authentication.is_none() {
        return None;
    }
    let says = "clients with a certificate can log in over the XRootD protocol only if they use it in TLS: \
                xroot.authentication lacks \"gsi\"";
    let finding = Finding::note("xroot_certificates_by_tls_only", says).at(lines.of("xroot", "authentication"));
    Some(finding.change("add \"gsi\" to xroot.authentication, or remove the key"))
}

/// Anonymous clients, if an export is open to them.
fn others(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let ways = configuration.authentication();
    let lets_anybody_in = ways.is_empty() || ways.contains(&Unix) || ways.contains(&Host);
    let is_open = |access: AnonymousAccess| access != AnonymousAccess::None;
    let open = configuration.exports.iter().find(|export| is_open(export.anonymous))?;
    if lets_anybody_in {
        return None;
    }
    let says = format!(
        "{} is open to anonymous clients, but these cannot log in over the XRootD protocol",
        open.path
    );
    let finding = Finding::note("xroot_anonymous_shut_out", says).at(lines.of("xroot", "authentication"));
    Some(finding.change("add \"unix\" to xroot.authentication"))
}
