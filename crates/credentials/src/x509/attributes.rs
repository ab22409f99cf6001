//! What VOMS says of the holder of a proxy (attribute certificates, RFC 5755).

use crate::limits::VOMS_CLOCK_SKEW;
use gsi_wire::voms::{AttributeCertificate, attribute_certificates};
use gsi_wire::{Certificate, dn, significant};

use super::CertificateRules;
use super::chain::{Purpose, verify_end_entity};
use super::signature;

/// What could be verified, and why the rest could not.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    pub(super) vos: Vec<String>,
    /// Without `/Role=NULL` and `/Capability=NULL`, the primary one first.
    pub(super) fqans: Vec<String>,
    pub(super) faults: Vec<String>,
    /// The end of the first attribute certificate that ends, in seconds since 1970.
    pub(super) expires_s: Option<i64>,
}

/// Verifies the attributes in the last-made of `proxies` (the last made first) that has some.
/// `holder` is the certificate that the proxies were made from.
pub(super) fn verify(
    proxies: &[Certificate<'_>],
    holder: &Certificate<'_>,
    rules: &CertificateRules,
    now_s: i64,
) -> Attributes {
    let mut found = Attributes::default();
    let carries = |proxy: &&Certificate<'_>| proxy.extension(gsi_wire::voms::ATTRIBUTE_CERTIFICATES).is_some();
    let Some(carrier) = proxies.iter().find(carries) else {
        return found;
    };
    let certificates = match attribute_certificates(carrier) {
        Ok(certificates) => certificates,
        Err(why) => {
            found.faults.push(why.to_string());
            return found;
        }
    };
    for certificate in certificates {
        let certificate = match certificate {
            Ok(certificate) => certificate,
            Err(why) => {
                found.faults.push(why.to_string());
                continue;
            }
        };
        match verify_one(&certificate, holder, rules, now_s) {
            Ok(server_expires_s) => {
                let end = certificate.not_after_s.min(server_expires_s);
                found.expires_s = Some(found.expires_s.map_or(end, |earlier| earlier.min(end)));
                for fqan in certificate.plain_fqans() {
                    if !found.fqans.iter().any(|known| known == fqan) {
                        found.fqans.push(fqan.to_owned());
                    }
                }
                if !found.vos.contains(&certificate.vo) {
                    found.vos.push(certificate.vo);
                }
            }
            Err(why) => found.faults.push(format!("VO {}: {why}", certificate.vo)),
        }
    }
    found
}

/// Verifies one; gives the end of the server's certificates, in seconds since 1970.
fn verify_one(
    certificate: &AttributeCertificate<'_>,
    holder: &Certificate<'_>,
    rules: &CertificateRules,
    now_s: i64,
) -> Result<i64, String> {
    if let Some(oid) = &certificate.unknown_critical {
        return Err(format!(
            "the attributes have the critical extension {oid}, which is not understood here"
        ));
    }
    check_time(certificate, now_s)?;
    check_holder(certificate, holder)?;
    check_targets(certificate, rules)?;
    let prefix = format!("/{}", certificate.vo);
    let is_of_vo = |fqan: &&String| {
        fqan.strip_prefix(&*prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(other) = certificate.fqans.iter().find(|fqan| !is_of_vo(fqan)) {
        return Err(format!("the attribute {other} is not one of this VO"));
    }
    verify_server(certificate, rules, now_s)
}

fn check_time(certificate: &AttributeCertificate<'_>, now_s: i64) -> Result<(), String> {
    let skew_s = i64::try_from(VOMS_CLOCK_SKEW.as_secs()).unwrap_or(0);
    if now_s > certificate.not_after_s.saturating_add(skew_s) {
        let end = crate::format_time(certificate.not_after_s);
        return Err(format!(
            "the attributes were valid until {end}; get new ones with voms-proxy-init"
        ));
    }
    if now_s < certificate.not_before_s.saturating_sub(skew_s) {
        let start = crate::format_time(certificate.not_before_s);
        return Err(format!("the attributes are valid from {start} on"));
    }
    Ok(())
}

/// The certificate that the attributes are for is named by its issuer and number; VOMS' own tools
/// write the holder's name in place of the issuer's.
fn check_holder(certificate: &AttributeCertificate<'_>, holder: &Certificate<'_>) -> Result<(), String> {
    let named = &certificate.holder;
    let (subject, issuer) = (holder.subject().der, holder.issuer().der);
    let is_holder = match named.serial {
        Some(serial) => {
            significant(serial) == significant(holder.serial())
                && named.issuers.iter().any(|name| *name == issuer || *name == subject)
        }
        None => named.names.contains(&subject),
    };
    match is_holder {
        true => Ok(()),
        false => Err("the attributes were given to the holder of another certificate".to_owned()),
    }
}

fn check_targets(certificate: &AttributeCertificate<'_>, rules: &CertificateRules) -> Result<(), String> {
    let Some(targets) = &certificate.targets else {
        return Ok(());
    };
    let is_us = |target: &String| {
        let host = target.split_once("://").map_or(&**target, |(_, rest)| rest);
        let host = host.split(['/', ':']).next().unwrap_or_default();
        rules.host_names.iter().any(|own| own.eq_ignore_ascii_case(host))
    };
    match targets.iter().any(is_us) {
        true => Ok(()),
        false => Err("the attributes are for other hosts than this".to_owned()),
    }
}

/// Finds the server's certificate, verifies it, compares its names with what the VO's directory
/// says, and verifies its signature under the attributes.
fn verify_server(certificate: &AttributeCertificate<'_>, rules: &CertificateRules, now_s: i64) -> Result<i64, String> {
    let vo = &certificate.vo;
    let known = rules
        .voms
        .of_vo(vo)
        .ok_or_else(|| "the VOMS directory has nothing about this VO".to_owned())?;
    let sent: Result<Vec<_>, _> = certificate
        .certificates
        .iter()
        .map(|der| Certificate::parse(der))
        .collect();
    let sent = sent.map_err(|why| format!("the server's certificate: {why}"))?;
    let kept: Vec<_> = known
        .certificates()
        .filter_map(|der| Certificate::parse(der).ok())
        .collect();
    let is_issuer = |candidate: &&Certificate<'_>| certificate.issuers.contains(&candidate.subject().der);
    let (own, above): (&Certificate<'_>, &[Certificate<'_>]) = match sent.split_first() {
        Some((own, above)) => (own, above),
        None => (
            kept.iter().find(is_issuer).ok_or_else(|| {
                "the server's certificate was not sent along and is not in the VOMS directory".to_owned()
            })?,
            &[],
        ),
    };
    let name = own.subject().one_line;
    if !is_issuer(&own)
        && !certificate
            .issuer_lines()
            .is_ok_and(|lines| lines.iter().any(|line| dn::same(line, name)))
    {
        return Err(format!(
            "the attributes name another issuer than {name}, whose certificate they bring"
        ));
    }
    if own.key_usage().is_some_and(|usage| !usage.digital_signature) {
        return Err(format!("the key of {name} may not be used to sign"));
    }
    let path = verify_end_entity(own, above, rules, Purpose::Any, now_s).map_err(|error| {
        error
            .detail()
            .unwrap_or("the server's certificate is not trusted")
            .to_owned()
    })?;
    if !known.permits(own.der(), &path.names) {
        return Err(format!(
            "the VOMS directory has no .lsc file that names {name} and its issuer {}",
            own.issuer().one_line
        ));
    }
    signature::verify(
        own,
        certificate.signature_algorithm_content,
        certificate.signed_part,
        certificate.signature,
    )
    .map_err(|_| format!("the attributes were altered, or {name} did not sign them"))?;
    Ok(path.expires_s)
}
