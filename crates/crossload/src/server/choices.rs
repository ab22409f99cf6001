//! Converts enumerations of the configuration to those of the crates that use them.

use config::Configuration;

/// From which addresses credentials are accepted in clear text.
pub(super) fn clear_text(configuration: &Configuration) -> identity::ClearText {
    match configuration.clear_text() {
        config::ClearText::Never => identity::ClearText::Never,
        config::ClearText::Loopback => identity::ClearText::Loopback,
        config::ClearText::Always => identity::ClearText::Always,
    }
}

/// Whether TLS asks clients for certificates.
pub(super) fn client_certificates(configuration: &Configuration) -> net::tls::ClientCertificates {
    match configuration.x509.client_certificate_mode() {
        config::ClientCertificates::Off => net::tls::ClientCertificates::Off,
        config::ClientCertificates::Optional => net::tls::ClientCertificates::Optional,
    }
}

/// Whether the checksums of both sides of a copy are compared.
pub(super) fn verification(configuration: &Configuration) -> transfer::Verification {
    match configuration.tpc.verify {
        config::Verification::Required => transfer::Verification::Required,
        config::Verification::WhenAvailable => transfer::Verification::WhenAvailable,
        config::Verification::Never => transfer::Verification::Never,
    }
}

/// The authentication methods of the XRootD protocol.
pub(super) fn authentication(configuration: &Configuration) -> Vec<door_xroot::AuthenticationMethod> {
    let method = |method| match method {
        config::AuthenticationMethod::Token => door_xroot::AuthenticationMethod::Token,
        config::AuthenticationMethod::Gsi => door_xroot::AuthenticationMethod::Gsi,
        config::AuthenticationMethod::Unix => door_xroot::AuthenticationMethod::Unix,
        config::AuthenticationMethod::Host => door_xroot::AuthenticationMethod::Host,
    };
    configuration.authentication().into_iter().map(method).collect()
}
