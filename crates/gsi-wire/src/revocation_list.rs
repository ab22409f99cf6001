//! Revocation lists (RFC 5280 §5), of either version. Read, not verified.

use crate::limits::REVOKED_CERTIFICATES_MAX;
use types::limits::REVOCATION_LIST_BYTES_MAX;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{CertificateRevocationList, FromDer, ReasonCode};

use crate::der::{self, BIT_STRING, SEQUENCE};
use crate::{Malformed, dn, malformed};

/// A list that could be read.
#[derive(Clone, Debug)]
pub struct RevocationList<'a> {
    /// What was signed.
    pub signed_part: &'a [u8],
    /// The content of the `AlgorithmIdentifier` of the signature, without tag and length.
    pub signature_algorithm_content: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// The name (DER) of the authority that made it.
    pub issuer: Vec<u8>,
    /// The same in one line.
    pub issuer_line: String,
    /// When it was made, in seconds since 1970.
    pub this_update_s: i64,
    /// When a newer one is due, in seconds since 1970; `None`: it does not say.
    pub next_update_s: Option<i64>,
    /// The numbers of the revoked certificates, as the bytes of their integers without leading
    /// zeros.
    pub serials: Vec<Box<[u8]>>,
}

impl<'a> RevocationList<'a> {
    /// Reads a list; `der` is exactly that.
    ///
    /// # Errors
    /// When it cannot be read, is only a change of another list, speaks for several authorities or
    /// of some reasons only, or is beyond [`REVOCATION_LIST_BYTES_MAX`] or
    /// [`REVOKED_CERTIFICATES_MAX`].
    pub fn parse(der: &'a [u8]) -> Result<Self, Malformed> {
        if der.len() > REVOCATION_LIST_BYTES_MAX {
            return Err(malformed("the revocation list is too large"));
        }
        let mut whole = der::only(der, SEQUENCE, "the revocation list")?.inside();
        let signed_part = whole.expect(SEQUENCE, "the content of the revocation list")?.raw;
        let algorithm = whole.expect(SEQUENCE, "the algorithm of the signature")?.content;
        let signature = whole.expect(BIT_STRING, "the signature")?.bits()?;
        whole.finish()?;
        let (_, list) =
            CertificateRevocationList::from_der(der).map_err(|_| malformed("the revocation list cannot be read"))?;
        check_extensions(&list)?;
        if list.iter_revoked_certificates().count() > REVOKED_CERTIFICATES_MAX {
            return Err(malformed("the revocation list has too many entries"));
        }
        let revoked = list.iter_revoked_certificates().filter(|entry| {
            // Only a list of changes takes something back; in a whole one such an entry means
            // nothing.
            !matches!(entry.reason_code(), Some((_, ReasonCode::RemoveFromCRL)))
        });
        Ok(Self {
            signed_part,
            signature_algorithm_content: algorithm,
            signature,
            issuer: list.issuer().as_raw().to_vec(),
            issuer_line: dn::one_line(list.issuer().as_raw())?,
            this_update_s: list.last_update().timestamp(),
            next_update_s: list.next_update().map(|time| time.timestamp()),
            serials: revoked.map(|entry| significant(entry.raw_serial()).into()).collect(),
        })
    }
}

/// A number without the zeros in front, so that two spellings of one number are the same bytes.
#[must_use]
pub fn significant(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    &serial[zeros..]
}

fn check_extensions(list: &CertificateRevocationList<'_>) -> Result<(), Malformed> {
    for extension in list.extensions() {
        let is_understood = match extension.parsed_extension() {
            ParsedExtension::IssuingDistributionPoint(point) => {
                !point.indirect_crl && point.only_some_reasons.is_none() && !point.only_contains_attribute_certs
            }
            ParsedExtension::AuthorityKeyIdentifier(_) | ParsedExtension::CRLNumber(_) => true,
            _ => !extension.critical,
        };
        if !is_understood {
            return Err(malformed(format!(
                "the revocation list is of a kind that is not understood, by its extension {}",
                extension.oid.to_id_string()
            )));
        }
    }
    Ok(())
}
