//! `proxy info`: the certificate that servers would be shown. Nothing is verified: that is for the
//! servers, which know whom they trust.

use gsi_wire::voms::{AttributeCertificate, attribute_certificates};
use gsi_wire::{Certificate, Malformed, ProxyKind};
use net::tls::ClientIdentity;
use serde_json::{Value, json};
use types::{Error, ErrorCode, Phase, Side};

use super::credentials::{Credentials, Found, certificate_files, loaded};
use crate::command_line::{ProxyAction, ProxyInfoOptions};
use crate::dates::instant;
use crate::exit_code::SOME_FAILED;
use crate::failure::Failure;
use crate::output;
use crate::token::now_s;

/// Prints what it is. The exit code is 0, or 1 if it does not last long enough.
///
/// # Errors
/// There is none, or it cannot be read.
pub(crate) fn run(action: &ProxyAction) -> Result<u8, Failure> {
    let ProxyAction::Info(options) = action;
    let Some(found) = certificate_files(options.proxy.as_deref(), None, None) else {
        let error = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Open);
        return Err(error.with_detail(Credentials::looked_for_certificate()).into());
    };
    let identity = loaded(&found.files, &found.by)?;
    let shown = Shown::of(&found, &identity).map_err(|why| Failure::invalid(why.to_string()))?;
    shown.print(options);
    let least_s = options
        .valid
        .map_or(1, |least| i64::try_from(least.as_secs()).unwrap_or(i64::MAX));
    Ok(if shown.left_s < least_s { SOME_FAILED } else { 0 })
}

/// What is shown of a certificate.
struct Shown {
    file: String,
    found_by: String,
    subject: String,
    issuer: String,
    /// The subject of the user's own certificate.
    identity: String,
    kind: &'static str,
    expires_s: i64,
    /// Seconds until it expires; 0 afterwards.
    left_s: i64,
    organisations: Vec<Organisation>,
}

/// What a virtual organisation says about its holder.
struct Organisation {
    name: String,
    attributes: Vec<String>,
    expires_s: i64,
}

impl Shown {
    fn of(found: &Found, identity: &ClientIdentity) -> Result<Self, Malformed> {
        let mut chain = Vec::new();
        for der in identity.chain() {
            chain.push(Certificate::parse(der)?);
        }
        let first = chain
            .first()
            .ok_or_else(|| Malformed("there is no certificate".into()))?;
        let mut own = chain.last().map_or_else(|| first.subject(), Certificate::issuer);
        let mut organisations = Vec::new();
        for certificate in &chain {
            let is_proxy = certificate.proxy_kind()?.is_some();
            if !is_proxy {
                own = certificate.subject();
                break;
            }
            // One that cannot be read does not hide the others.
            let read = attribute_certificates(certificate)?.into_iter().flatten();
            organisations.extend(read.map(|one| Organisation::of(&one)));
        }
        Ok(Self {
            file: found.files.certificate.display().to_string(),
            found_by: found.by.clone(),
            subject: first.subject().one_line.to_owned(),
            issuer: first.issuer().one_line.to_owned(),
            identity: own.one_line.to_owned(),
            kind: match first.proxy_kind()? {
                Some(ProxyKind::Rfc3820) => "proxy",
                Some(ProxyKind::Draft) => "proxy of the old kind of GT3",
                Some(ProxyKind::Legacy) => "proxy of the old kind of GT2",
                None => "certificate",
            },
            expires_s: identity.expires_s(),
            left_s: (identity.expires_s() - now_s()).max(0),
            organisations,
        })
    }

    fn print(&self, options: &ProxyInfoOptions) {
        if options.json {
            return output::json(&self.to_json());
        }
        let line = |name: &str, value: &str| output::line(&format!("{name:10} {}", output::name(value)));
        line("file", &format!("{} ({})", self.file, self.found_by));
        line("kind", self.kind);
        line("subject", &self.subject);
        line("issuer", &self.issuer);
        line("identity", &self.identity);
        line(
            "expires",
            &format!("{}, {}", instant(self.expires_s * 1000), left(self.left_s)),
        );
        for organisation in &self.organisations {
            let left_s = organisation.expires_s - now_s();
            line("VO", &format!("{}, {}", organisation.name, left(left_s)));
            organisation
                .attributes
                .iter()
                .for_each(|attribute| line("attribute", attribute));
        }
    }

    fn to_json(&self) -> Value {
        let organisations = self
            .organisations
            .iter()
            .map(|one| json!({"name": one.name, "attributes": one.attributes, "expires_s": one.expires_s}));
        json!({"file": self.file, "found_by": self.found_by, "kind": self.kind, "subject": self.subject,
            "issuer": self.issuer, "identity": self.identity, "expires_s": self.expires_s,
            "left_s": self.left_s, "organisations": organisations.collect::<Vec<_>>()})
    }
}

impl Organisation {
    fn of(read: &AttributeCertificate<'_>) -> Self {
        Self {
            name: read.vo.clone(),
            attributes: read.plain_fqans().map(str::to_owned).collect(),
            expires_s: read.not_after_s,
        }
    }
}

/// A time left, such as `11 h 32 min left`.
fn left(seconds: i64) -> String {
    match seconds {
        ..=0 => "expired".to_owned(),
        1..60 => format!("{seconds} s left"),
        60..3600 => format!("{} min left", seconds / 60),
        3600..86_400 => format!("{} h {} min left", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h left", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::left;

    #[test]
    fn the_time_left_has_two_units() {
        let all = [-5, 0, 59, 60, 3599, 3660, 86_399, 90_000].map(left);
        assert_eq!(
            all,
            [
                "expired",
                "expired",
                "59 s left",
                "1 min left",
                "59 min left",
                "1 h 1 min left",
                "23 h 59 min left",
                "1 d 1 h left"
            ]
        );
    }
}
