//! PEM (RFC 7468): text around DER. Files of certificates hold several blocks, with words between
//! them.

use crate::limits::{PEM_BLOCKS_MAX, PEM_BYTES_MAX};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::{Malformed, malformed};

/// One block of a PEM file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PemBlock {
    /// What it holds, such as `CERTIFICATE`.
    pub label: String,
    /// What is in it.
    pub der: Vec<u8>,
}

/// All blocks of a file that are not private keys, in order. Keys are passed over without being
/// decoded.
///
/// # Errors
/// When it is larger than [`PEM_BYTES_MAX`], has more than [`PEM_BLOCKS_MAX`] blocks, or a block
/// has no end or is not base64.
pub fn pem_blocks(bytes: &[u8]) -> Result<Vec<PemBlock>, Malformed> {
    if bytes.len() > PEM_BYTES_MAX {
        return Err(malformed("the file is too large"));
    }
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if let Some(label) = marker(line, b"-----BEGIN ") {
            if open.is_some() {
                return Err(malformed("a PEM block begins inside of another"));
            }
            open = Some((label, String::new()));
        } else if let Some(label) = marker(line, b"-----END ") {
            let (begun, text) = open
                .take()
                .filter(|(begun, _)| *begun == label)
                .ok_or_else(|| malformed("a PEM block ends that did not begin"))?;
            if begun.ends_with("PRIVATE KEY") {
                continue;
            }
            if blocks.len() == PEM_BLOCKS_MAX {
                return Err(malformed("there are too many PEM blocks"));
            }
            let der = STANDARD
                .decode(text)
                .map_err(|_| malformed(format!("the PEM block {label} is not base64")))?;
            blocks.push(PemBlock { label, der });
        } else if let Some((label, text)) = open.as_mut().filter(|(label, _)| !label.ends_with("PRIVATE KEY")) {
            let words =
                std::str::from_utf8(line).map_err(|_| malformed(format!("the PEM block {label} is not base64")))?;
            text.push_str(words);
        }
    }
    if open.is_some() {
        return Err(malformed("a PEM block has no end"));
    }
    Ok(blocks)
}

fn marker(line: &[u8], start: &[u8]) -> Option<String> {
    let label = line.strip_prefix(start)?.strip_suffix(b"-----")?;
    String::from_utf8(label.to_vec()).ok()
}

/// The certificates of a PEM file as DER, in order: a chain, when it is the file of a chain or
/// proxy.
///
/// # Errors
/// As [`pem_blocks`], and when it holds no certificate.
pub fn certificates_in_pem(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Malformed> {
    let certificates: Vec<_> = pem_blocks(bytes)?
        .into_iter()
        .filter(|block| {
            matches!(
                &*block.label,
                "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE"
            )
        })
        .map(|block| block.der)
        .collect();
    if certificates.is_empty() {
        return Err(malformed("there is no certificate in it"));
    }
    Ok(certificates)
}

/// One block of PEM.
#[must_use]
pub fn to_pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_between_words_and_keys_are_passed_over() {
        let text = format!(
            "subject=/CN=x\r\n{}-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n%%%\n-----END RSA PRIVATE KEY-----\n{}",
            to_pem("CERTIFICATE", &[7; 100]).replace('\n', "\r\n"),
            to_pem("X509 CRL", b"x"),
        );
        let blocks = pem_blocks(text.as_bytes()).unwrap();
        assert_eq!(blocks.len(), 2);
        assert_eq!((&*blocks[0].label, &*blocks[0].der), ("CERTIFICATE", &[7_u8; 100][..]));
        assert_eq!(certificates_in_pem(text.as_bytes()).unwrap(), vec![vec![7; 100]]);
    }

    #[test]
    fn broken_blocks_are_refused_in_words() {
        for (text, words) in [
            ("-----BEGIN CERTIFICATE-----\nAAAA\n", "no end"),
            ("-----BEGIN CERTIFICATE-----\n%%%%\n-----END CERTIFICATE-----", "base64"),
            ("-----END CERTIFICATE-----", "did not begin"),
            ("-----BEGIN A-----\n-----BEGIN B-----\n", "inside"),
            ("", "no certificate"),
        ] {
            let error = certificates_in_pem(text.as_bytes()).unwrap_err();
            assert!(error.0.contains(words), "{text}: {error}");
        }
    }
}
