//! The trust directory: authorities, their revocation lists, and the names that they may sign.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use gsi_wire::{Certificate, Malformed, RevocationList, certificates_in_pem, dn, pem_blocks};
use rustls_pki_types::{CertificateDer, TrustAnchor};
use types::limits::{REVOCATION_LIST_BYTES_MAX, TRUST_FILES_MAX};

use super::names::{NameFile, NameRules};
use super::revocation::{Knowledge, Revoked};
use super::signature;

/// A file, or an authority in it, that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustFault {
    /// The file's name without its directory.
    pub file: String,
    /// What is wrong, and what it means for whom.
    pub why: String,
}

/// The times of a revocation list, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListTimes {
    /// When it was made.
    pub made_s: i64,
    /// When the next one is due; from then on it is outdated.
    pub next_update_s: Option<i64>,
}

/// Authorities and what is known of them.
#[derive(Debug, Default)]
pub struct TrustStore {
    /// What each file says, so that a file that is broken later can be stood in for by what it was.
    files: BTreeMap<String, Arc<Content>>,
    authorities: Vec<Authority>,
    /// Where `webpki` may end: the keys of authorities that sign themselves, or whose issuer is not
    /// here.
    anchors: Vec<TrustAnchor<'static>>,
    /// Authorities below those.
    intermediates: Vec<CertificateDer<'static>>,
}

/// An authority.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) der: CertificateDer<'static>,
    pub(super) subject: Vec<u8>,
    pub(super) subject_line: String,
    pub(super) public_key_info: Vec<u8>,
    pub(super) not_before_s: i64,
    pub(super) not_after_s: i64,
    pub(super) names: NameRules,
    pub(super) revocation: Knowledge,
    /// The names without extension of the files that it is in.
    stems: HashSet<String>,
}

/// What a file holds.
#[derive(Debug)]
enum Content {
    /// Certificates in DER.
    Authorities(Vec<Vec<u8>>),
    /// Revocation lists in DER.
    Lists(Vec<Vec<u8>>),
    Names(NameFile),
    /// It cannot be read.
    Broken(Kind),
}

/// What a file is for, by the end of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Authorities,
    Lists,
    Namespaces,
    SigningPolicy,
}

impl Kind {
    fn of(name: &str) -> Option<(&str, Self)> {
        let (stem, end) = name.rsplit_once('.')?;
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let kind = match end {
            "pem" | "crt" => Self::Authorities,
            "namespaces" => Self::Namespaces,
            "signing_policy" => Self::SigningPolicy,
            _ if is_number(end) => Self::Authorities,
            _ if end.strip_prefix('r').is_some_and(is_number) => Self::Lists,
            _ => return None,
        };
        Some((stem, kind))
    }
}

impl TrustStore {
    /// Reads the files of a trust directory, each as its name (without directory) and bytes:
    /// `HASH.0` and `*.pem` hold authorities, `HASH.r0` revocation lists, `*.namespaces` and
    /// `*.signing_policy` what an authority may sign. Other files are ignored.
    ///
    /// A broken file is a fault of its own authority only, whose certificates are refused when its
    /// revocation list or the names that it may sign cannot be read (see [`Self::build_after`]).
    pub fn build(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> (Self, Vec<TrustFault>) {
        Self::build_after(files, None)
    }

    /// As [`Self::build`], for a directory that was read before: where a file is broken that was
    /// good then, what it said then still holds, and the fault says so.
    pub fn build_after(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
        previous: Option<&Self>,
    ) -> (Self, Vec<TrustFault>) {
        let mut store = Self::default();
        let mut faults = Vec::new();
        for (name, bytes) in files {
            let Some((_, kind)) = Kind::of(&name) else { continue };
            if store.files.len() == TRUST_FILES_MAX {
                let why = format!("there are more than {TRUST_FILES_MAX} files; the rest is not looked at");
                faults.push(TrustFault { file: name, why });
                break;
            }
            let content = read(kind, &bytes).map(Arc::new).unwrap_or_else(|why| {
                let earlier = previous.and_then(|previous| previous.files.get(&name));
                let (content, meaning) = match earlier.filter(|content| !matches!(***content, Content::Broken(_))) {
                    Some(content) => (Arc::clone(content), "what it said before still holds"),
                    None => (Arc::new(Content::Broken(kind)), consequence(kind)),
                };
                let why = format!("{why}; {meaning}");
                let file = name.clone();
                faults.push(TrustFault { file, why });
                content
            });
            store.files.insert(name, content);
        }
        store.assemble(&mut faults);
        (store, faults)
    }

    /// Adds authorities in DER, such as those of the system. Whatever cannot be read is left out.
    pub fn add_authorities<'d>(&mut self, certificates: impl IntoIterator<Item = &'d [u8]>) {
        for der in certificates {
            let _ = self.add_authority(der, None);
        }
        self.anchor();
    }

    /// How many authorities there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.authorities.len()
    }

    /// Whether there is no authority.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.authorities.is_empty()
    }

    /// The authorities' certificates in DER, for a client that verifies servers, or to say whose
    /// certificates are wanted.
    pub fn certificates(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.authorities.iter().map(|authority| &authority.der)
    }

    /// The authorities' names in one line, and whether a revocation list of theirs is at hand.
    pub fn authorities(&self) -> impl Iterator<Item = (&str, bool)> {
        self.authorities.iter().map(|authority| {
            let has_list = matches!(authority.revocation, Knowledge::List(_));
            (&*authority.subject_line, has_list)
        })
    }

    /// The revocation lists at hand.
    pub fn revocation_lists(&self) -> impl Iterator<Item = ListTimes> {
        self.authorities
            .iter()
            .filter_map(|authority| match &authority.revocation {
                Knowledge::List(list) => Some(ListTimes {
                    made_s: list.made_s(),
                    next_update_s: list.next_update_s(),
                }),
                Knowledge::Nothing | Knowledge::Broken => None,
            })
    }

    pub(super) fn anchors(&self) -> &[TrustAnchor<'static>] {
        &self.anchors
    }

    pub(super) fn intermediates(&self) -> &[CertificateDer<'static>] {
        &self.intermediates
    }

    /// The authorities with this name (DER).
    pub(super) fn named<'s>(&'s self, subject: &'s [u8]) -> impl Iterator<Item = &'s Authority> {
        self.authorities
            .iter()
            .filter(move |authority| authority.subject == subject)
    }

    fn assemble(&mut self, faults: &mut Vec<TrustFault>) {
        let files = std::mem::take(&mut self.files);
        for (name, content) in &files {
            let Content::Authorities(certificates) = &**content else {
                continue;
            };
            let stem = Kind::of(name).map(|(stem, _)| stem);
            for der in certificates {
                if let Err(why) = self.add_authority(der, stem) {
                    let why = format!("{why}; this authority is not trusted");
                    faults.push(TrustFault {
                        file: name.clone(),
                        why,
                    });
                }
            }
        }
        for (name, content) in &files {
            let Some((stem, _)) = Kind::of(name) else { continue };
            match &**content {
                Content::Authorities(_) => {}
                Content::Lists(lists) => {
                    for der in lists {
                        if let Err(why) = self.add_list(der) {
                            faults.push(TrustFault {
                                file: name.clone(),
                                why,
                            });
                        }
                    }
                }
                Content::Names(file) => {
                    for authority in &mut self.authorities {
                        let is_own = authority.stems.contains(stem);
                        authority
                            .names
                            .add(&dn::canonical(&authority.subject_line), file, is_own);
                    }
                }
                Content::Broken(kind) => self.add_broken(stem, *kind),
            }
        }
        self.files = files;
        self.anchor();
    }

    /// Adds one authority; one that is there already gets one more name of a file.
    fn add_authority(&mut self, der: &[u8], stem: Option<&str>) -> Result<(), Malformed> {
        let stem = stem.map(str::to_owned);
        if let Some(known) = self.authorities.iter_mut().find(|known| *known.der == *der) {
            known.stems.extend(stem);
            return Ok(());
        }
        let certificate = Certificate::parse(der)?;
        let is_version_1 = certificate.extensions().next().is_none();
        if !certificate.is_ca() && !is_version_1 {
            return Err(Malformed("it is not the certificate of an authority".into()));
        }
        let authority = Authority {
            der: CertificateDer::from(der.to_vec()),
            subject: certificate.subject().der.to_vec(),
            subject_line: certificate.subject().one_line.to_owned(),
            public_key_info: certificate.public_key_info().to_vec(),
            not_before_s: certificate.not_before_s(),
            not_after_s: certificate.not_after_s(),
            names: NameRules::default(),
            revocation: Knowledge::Nothing,
            stems: stem.into_iter().collect(),
        };
        self.authorities.push(authority);
        Ok(())
    }

    /// Lays a revocation list beside the authority that signed it. Of two lists the newer one
    /// counts.
    fn add_list(&mut self, der: &[u8]) -> Result<(), String> {
        let list = RevocationList::parse(der).map_err(|why| why.to_string())?;
        let mut is_known = false;
        let mut is_signed = false;
        for authority in self.authorities.iter_mut().filter(|known| known.subject == list.issuer) {
            is_known = true;
            let signer = Certificate::parse(&authority.der).map_err(|why| why.to_string())?;
            let may_sign = signer.key_usage().is_none_or(|usage| usage.revocation_list_sign);
            let (algorithm, message) = (list.signature_algorithm_content, list.signed_part);
            if !may_sign || signature::verify(&signer, algorithm, message, list.signature).is_err() {
                // An authority can have several keys; a list that another of them signed says
                // nothing of this one.
                continue;
            }
            is_signed = true;
            let read = Revoked::new(&list);
            match &authority.revocation {
                Knowledge::List(other) if !read.is_newer_than(other) => {}
                _ => authority.revocation = Knowledge::List(read),
            }
        }
        if is_signed {
            return Ok(());
        }
        for authority in self.authorities.iter_mut().filter(|known| known.subject == list.issuer) {
            if matches!(authority.revocation, Knowledge::Nothing) {
                authority.revocation = Knowledge::Broken;
            }
        }
        Err(match is_known {
            true => format!(
                "{} did not sign it, or in a way that is not accepted; {}",
                list.issuer_line,
                consequence(Kind::Lists)
            ),
            false => format!("the authority {} is not here", list.issuer_line),
        })
    }

    fn add_broken(&mut self, stem: &str, kind: Kind) {
        for authority in self.authorities.iter_mut().filter(|known| known.stems.contains(stem)) {
            match kind {
                Kind::Authorities => {}
                Kind::Lists if matches!(authority.revocation, Knowledge::Nothing) => {
                    authority.revocation = Knowledge::Broken;
                }
                Kind::Lists => {}
                Kind::Namespaces | Kind::SigningPolicy => authority.names.add_broken(),
            }
        }
    }

    /// Sorts the authorities into those at which a chain may end and those below. One whose issuer
    /// is here and signed it is below, so that it is itself looked up in its issuer's revocation
    /// list.
    fn anchor(&mut self) {
        self.anchors.clear();
        self.intermediates.clear();
        for authority in &self.authorities {
            if self.is_below_another(authority) {
                self.intermediates.push(authority.der.clone());
            } else if let Ok(anchor) = webpki::anchor_from_trusted_cert(&authority.der) {
                self.anchors.push(anchor.to_owned());
            }
        }
    }

    fn is_below_another(&self, authority: &Authority) -> bool {
        let Ok(certificate) = Certificate::parse(&authority.der) else {
            return false;
        };
        let issuer = certificate.issuer().der;
        issuer != authority.subject
            && self.named(issuer).any(|above| {
                let signer = Certificate::parse(&above.der);
                signer.is_ok_and(|signer| {
                    let algorithm = certificate.signature_algorithm_content();
                    signature::verify(&signer, algorithm, certificate.signed_part(), certificate.signature()).is_ok()
                })
            })
    }
}

fn consequence(kind: Kind) -> &'static str {
    match kind {
        Kind::Authorities => "no authority is taken from it",
        Kind::Lists => "certificates of its authority are refused until it can be read",
        Kind::Namespaces | Kind::SigningPolicy => "certificates of its authority are refused until it can be read",
    }
}

fn read(kind: Kind, bytes: &[u8]) -> Result<Content, String> {
    let text = || std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned());
    match kind {
        Kind::Authorities => read_authorities(bytes).map(Content::Authorities),
        Kind::Lists => read_lists(bytes).map(Content::Lists),
        Kind::Namespaces => NameFile::namespaces(text()?).map(Content::Names),
        Kind::SigningPolicy => NameFile::policies(text()?).map(Content::Names),
    }
}

/// PEM, or one certificate in DER.
fn read_authorities(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    if bytes.first() == Some(&0x30) && Certificate::parse(bytes).is_ok() {
        return Ok(vec![bytes.to_vec()]);
    }
    let certificates = certificates_in_pem(bytes).map_err(|why| why.to_string())?;
    if let [only] = &*certificates {
        Certificate::parse(only).map_err(|why| why.to_string())?;
    }
    Ok(certificates)
}

/// PEM, or one list in DER.
fn read_lists(bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    if bytes.len() > 2 * REVOCATION_LIST_BYTES_MAX {
        return Err("it is too large".to_owned());
    }
    let lists = if bytes.first() == Some(&0x30) {
        vec![bytes.to_vec()]
    } else {
        let blocks = pem_blocks(bytes).map_err(|why| why.to_string())?;
        let lists = blocks.into_iter().filter(|block| block.label == "X509 CRL");
        lists.map(|block| block.der).collect()
    };
    for der in &lists {
        RevocationList::parse(der).map_err(|why| why.to_string())?;
    }
    match lists.is_empty() {
        true => Err("there is no revocation list in it".to_owned()),
        false => Ok(lists),
    }
}
