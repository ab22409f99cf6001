//! Targets for certificates, proxies, VOMS attributes, and the files that say what authorities and
//! servers may.

use std::sync::{Arc, LazyLock};

use credentials::x509::{
    CertificateRules, GridMap, Revocation, TrustStore, VomsDirectory, VomsMap, verify_chain, verify_request,
};
use gsi_wire::delegation;
use gsi_wire::limits::{
    NAME_RULES_MAX, ONE_LINE_NAME_BYTES_MAX, VOMS_ATTRIBUTES_MAX, VOMS_CERTIFICATES_MAX, VOMS_FQAN_BYTES_MAX,
    VOMS_FQANS_MAX,
};
use gsi_wire::voms::{AttributeCertificate, attribute_certificates};
use gsi_wire::{Certificate, RevocationList, certificates_in_pem, dn, lsc, namespaces, signing_policy, to_pem};

/// Pieces of DER that certificates are made of.
pub(crate) const DER_WORDS: &[&str] = &[
    "\u{2}\u{1}\u{0}",
    "\u{5}\u{0}",
    "\u{6}\u{3}U\u{1d}\u{f}",
    "\u{6}\u{3}U\u{1d}\u{11}",
    "\u{6}\u{3}U\u{4}\u{3}",
    "\u{1}\u{1}",
    "0\u{0}",
    "1\u{0}",
    "261122000000Z",
    "20261122000000Z",
];

/// Pieces of PEM.
pub(crate) const PEM_WORDS: &[&str] = &[
    "-----BEGIN CERTIFICATE-----\n",
    "-----END CERTIFICATE-----\n",
    "-----BEGIN PRIVATE KEY-----\n",
    "AAAA",
    "=",
];

/// Pieces of files about names.
pub(crate) const NAME_WORDS: &[&str] = &[
    "access_id_CA X509 '",
    "pos_rights globus CA:sign\n",
    "cond_subjects globus '\"",
    "TO Issuer ",
    "SELF ",
    "PERMIT Subject \"",
    "DENY Subject \"",
    "/CN=",
    "/Email=",
    "\\\n",
    "\\xc3",
    "\"",
    "'",
    "*",
    "?",
    ".*",
    "(",
    "------NEXT CHAIN------\n",
    "/Role=NULL",
    " user\n",
];

/// When the certificates of the corpus are valid, in seconds since 1970.
const NOW_S: i64 = 1_795_324_979;
/// The authority that signed them. Its key is gone.
const AUTHORITY: &str = include_str!("authority.pem");
/// The server that speaks for their VO.
const SERVER: &str = "/O=Crossload test/CN=voms.testvo.example\n/O=Crossload test/CN=Crossload test CA\n";

static RULES: LazyLock<CertificateRules> = LazyLock::new(|| {
    let (trust, faults) = TrustStore::build([("authority.pem".to_owned(), AUTHORITY.as_bytes().to_vec())]);
    assert!(faults.is_empty(), "{faults:?}");
    let server = ("testvo".to_owned(), "voms.lsc".to_owned(), SERVER.as_bytes().to_vec());
    CertificateRules {
        trust: Arc::new(trust),
        voms: Arc::new(VomsDirectory::build([server]).0),
        revocation: Revocation::IfPresent,
        ..CertificateRules::default()
    }
});

/// A certificate that could be read is all of the input, and can be written as PEM and read again;
/// its names are printable ASCII; everything that is asked of it can be answered.
pub(crate) fn certificate(data: &[u8]) {
    let Ok(certificate) = Certificate::parse(data) else {
        return;
    };
    assert_eq!(certificate.der(), data);
    for name in [certificate.subject(), certificate.issuer()] {
        assert!(name.one_line.len() <= ONE_LINE_NAME_BYTES_MAX + 1024);
        assert!(name.one_line.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        assert!(dn::same(name.one_line, name.one_line));
        let canonical = dn::canonical(name.one_line);
        assert_eq!(dn::canonical(&canonical), canonical);
    }
    let _ = (
        certificate.key_usage(),
        certificate.extended_key_usage(),
        certificate.dns_names(),
    );
    let _ = (
        certificate.public_key_kind(),
        certificate.proxy_kind(),
        certificate.not_after_s(),
    );
    if let Ok(found) = attribute_certificates(&certificate) {
        assert!(found.len() <= VOMS_ATTRIBUTES_MAX);
    }
    let pem = to_pem("CERTIFICATE", data);
    assert_eq!(certificates_in_pem(pem.as_bytes()), Ok(vec![data.to_vec()]));
}

/// Changes to signed chains never change the identity, and never add an attribute that the VO's
/// server did not give.
pub(crate) fn certificate_chain(data: &[u8]) {
    let Ok(chain) = certificates_in_pem(data) else { return };
    let chain: Vec<&[u8]> = chain.iter().map(Vec::as_slice).collect();
    match verify_chain(&chain, &RULES, NOW_S) {
        Ok(verified) => {
            assert_eq!(verified.principal.dn.as_deref(), Some("/O=Crossload test/CN=Jane Doe"));
            let given = ["/testvo/Role=pilot", "/testvo"];
            assert!(verified.principal.fqans.iter().all(|fqan| given.contains(&&**fqan)));
            assert!(verified.expires_s >= NOW_S);
        }
        Err(error) => assert_eq!(error.code().http_status(), 401, "{error}"),
    }
    let nobody = CertificateRules::default();
    assert!(
        verify_chain(&chain, &nobody, NOW_S).is_err(),
        "no authority is trusted, but a chain is accepted"
    );
}

/// Attributes that could be read keep to their limits and are plain text.
pub(crate) fn voms_attributes(data: &[u8]) {
    let Ok(attributes) = AttributeCertificate::parse(data) else {
        return;
    };
    assert!((1..=VOMS_FQANS_MAX).contains(&attributes.fqans.len()));
    assert!(attributes.fqans.iter().all(|fqan| fqan.len() <= VOMS_FQAN_BYTES_MAX));
    assert!(attributes.certificates.len() <= VOMS_CERTIFICATES_MAX);
    assert!(!attributes.vo.is_empty() && !attributes.vo.contains(['/', '\0']) && !attributes.vo.starts_with('.'));
    assert!(attributes.server_host().len() <= attributes.server.len());
    for fqan in attributes.plain_fqans() {
        assert!(!fqan.ends_with("/Capability=NULL") || fqan.contains("/Capability=NULL/Capability=NULL"));
    }
    let _ = attributes.issuer_lines();
}

/// A request that could be read is judged, and its key is somewhere in it.
pub(crate) fn certificate_request(data: &[u8]) {
    let Ok(request) = delegation::CertificateRequest::parse(data) else {
        return;
    };
    let key = request.public_key_info;
    assert!(data.windows(key.len()).any(|window| window == key));
    let _ = verify_request(&request);
}

/// Every number of a list that could be read is without leading zeros, and a store takes or refuses
/// it.
pub(crate) fn revocation_list(data: &[u8]) {
    if let Ok(list) = RevocationList::parse(data) {
        assert!(list.serials.iter().all(|serial| serial.first() != Some(&0)));
    }
    let files = [
        ("0.pem".to_owned(), AUTHORITY.as_bytes().to_vec()),
        ("0.r0".to_owned(), data.to_vec()),
    ];
    let (trust, _) = TrustStore::build(files);
    assert_eq!(trust.len(), 1);
}

/// Files that say what an authority may sign: what is read keeps to its limits, a store takes or
/// refuses it, and matching comes to an end.
pub(crate) fn authority_names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(policies) = signing_policy::parse(&text) {
        assert!(policies.iter().map(|policy| policy.subjects.len()).sum::<usize>() <= NAME_RULES_MAX);
        for policy in &policies {
            let _ = policy.permits("/O=Crossload test/CN=Jane Doe");
            assert!(
                policy
                    .subjects
                    .iter()
                    .all(|pattern| pattern.contains(['*', '?']) || policy.permits(pattern))
            );
        }
    }
    if let Ok(rules) = namespaces::parse(&text) {
        assert!((1..=NAME_RULES_MAX).contains(&rules.len()));
    }
    for ending in ["namespaces", "signing_policy"] {
        let files = [
            ("0.pem".to_owned(), AUTHORITY.as_bytes().to_vec()),
            (format!("0.{ending}"), data.to_vec()),
        ];
        assert_eq!(TrustStore::build(files).0.len(), 1);
    }
}

/// Maps of names to users give only names that can be users'.
pub(crate) fn name_maps(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let name = "/O=Crossload test/CN=Jane Doe";
    let (grid_map, faults) = GridMap::parse(&text);
    assert!(grid_map.len() + faults.len() <= text.lines().count() + 1);
    let (voms_map, _) = VomsMap::parse(&text);
    let fqans = ["/testvo/Role=pilot".to_owned(), "/atlas/de/Role=production".to_owned()];
    for user in [grid_map.user(name), voms_map.user(name, &fqans)].into_iter().flatten() {
        assert!(credentials::is_user_name(user));
    }
}

/// Chains of names that could be read can be written and read again.
pub(crate) fn voms_servers(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(chains) = lsc::parse(&text) else { return };
    assert!(chains.iter().all(|chain| chain.len() >= 2));
    let written: Vec<String> = chains.iter().map(|chain| chain.join("\n")).collect();
    assert_eq!(lsc::parse(&written.join("\n\n")), Ok(chains));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If none of it were believed, the target would assert nothing.
    #[test]
    fn the_corpus_of_chains_has_some_that_are_believed() {
        let proxy = certificates_in_pem(include_bytes!("../../corpus/certificate-chain/proxy-with-voms"));
        let proxy = proxy.expect("PEM");
        let chain: Vec<&[u8]> = proxy.iter().map(Vec::as_slice).collect();
        let verified = verify_chain(&chain, &RULES, NOW_S).expect("believed");
        assert_eq!(verified.principal.fqans, ["/testvo/Role=pilot", "/testvo"]);
        assert_eq!(verified.attribute_faults, Vec::<String>::new());
    }
}
