//! Attribute certificates (RFC 5755) as VOMS puts them into proxies: which VO vouches for which
//! groups and roles of the holder of a certificate. Read, not verified.
//!
//! A proxy carries them in an extension of its own, each signed by the VO's server, whose
//! certificates come with it.

use crate::limits::{VOMS_ATTRIBUTES_MAX, VOMS_CERTIFICATES_MAX, VOMS_FQAN_BYTES_MAX, VOMS_FQANS_MAX};
use x509_parser::asn1_rs::{FromDer, GeneralizedTime};

use crate::der::{
    self, BIT_STRING, BOOLEAN, Element, GENERALIZED_TIME, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, Reader, SEQUENCE,
    SET, context, context_primitive,
};
use crate::{Certificate, Malformed, dn, malformed};

/// The extension of a proxy that holds attribute certificates.
pub const ATTRIBUTE_CERTIFICATES: &str = "1.3.6.1.4.1.8005.100.100.5";
/// The attribute whose values are FQANs.
const FQANS: &str = "1.3.6.1.4.1.8005.100.100.4";
/// The extension with the certificates of the VOMS server.
const CERTIFICATES: &str = "1.3.6.1.4.1.8005.100.100.10";
/// The extension with further attributes of the holder, which give no rights here.
const GENERIC_ATTRIBUTES: &str = "1.3.6.1.4.1.8005.100.100.11";
/// `id-ce-targetInformation` (RFC 5755 §4.3.2).
const TARGETS: &str = "2.5.29.55";
/// `id-ce-noRevAvail` (RFC 5755 §4.3.6).
const NO_REVOCATION: &str = "2.5.29.56";
/// `id-ce-authorityKeyIdentifier` (RFC 5755 §4.3.3).
const AUTHORITY_KEY: &str = "2.5.29.35";
/// Deepest nesting in which names of targets are looked for.
const TARGET_DEPTH_MAX: usize = 6;

/// An attribute certificate that could be read.
#[derive(Clone, Debug)]
pub struct AttributeCertificate<'a> {
    /// What was signed.
    pub signed_part: &'a [u8],
    /// The content of the `AlgorithmIdentifier` of the signature, without tag and length.
    pub signature_algorithm_content: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// Whom it speaks of.
    pub holder: Holder<'a>,
    /// The names (DER) of who signed it.
    pub issuers: Vec<&'a [u8]>,
    /// Valid from this time on, in seconds since 1970.
    pub not_before_s: i64,
    /// Valid until this time, in seconds since 1970.
    pub not_after_s: i64,
    /// The VO by name.
    pub vo: String,
    /// The VO's server as `host:port`, as the certificate names it.
    pub server: String,
    /// The holder's attributes, the primary one first, exactly as they stand there.
    pub fqans: Vec<String>,
    /// The server's certificates in DER, its own first; empty when they are not there.
    pub certificates: Vec<&'a [u8]>,
    /// The hosts that it is for; `None`: for all.
    pub targets: Option<Vec<String>>,
    /// A critical extension that is not known here, by its object identifier. It must not be
    /// accepted then.
    pub unknown_critical: Option<String>,
}

/// Whom an attribute certificate speaks of.
#[derive(Clone, Debug, Default)]
pub struct Holder<'a> {
    /// The names (DER) of the issuer of the holder's certificate. VOMS' own tools put the holder's
    /// name here.
    pub issuers: Vec<&'a [u8]>,
    /// The number of the holder's certificate.
    pub serial: Option<&'a [u8]>,
    /// The names (DER) of the holder.
    pub names: Vec<&'a [u8]>,
}

/// The attribute certificates in a proxy's extension, each read by itself, so that one that cannot
/// be read does not hide the others. Empty when the certificate has no such extension.
///
/// # Errors
/// When the list itself cannot be read, or has more than [`VOMS_ATTRIBUTES_MAX`] entries.
pub fn attribute_certificates<'c>(
    certificate: &'c Certificate<'_>,
) -> Result<Vec<Result<AttributeCertificate<'c>, Malformed>>, Malformed> {
    let Some(extension) = certificate.extension(ATTRIBUTE_CERTIFICATES) else {
        return Ok(Vec::new());
    };
    let outer = der::only(extension.value, SEQUENCE, "the list of VOMS attributes")?;
    let mut lists = outer.inside();
    let mut found = Vec::new();
    while !lists.is_at_end() {
        let mut list = lists.expect(SEQUENCE, "the list of VOMS attributes")?.inside();
        while !list.is_at_end() {
            if found.len() == VOMS_ATTRIBUTES_MAX {
                return Err(malformed("there are too many VOMS attributes"));
            }
            let one = list.expect(SEQUENCE, "an attribute certificate")?;
            found.push(AttributeCertificate::parse(one.raw));
        }
    }
    Ok(found)
}

impl<'a> AttributeCertificate<'a> {
    /// Reads one attribute certificate; `der` is exactly that.
    ///
    /// # Errors
    /// When it cannot be read, is not of version 2, has no FQANs, or is beyond the limits for VOMS.
    pub fn parse(der: &'a [u8]) -> Result<Self, Malformed> {
        let mut whole = der::only(der, SEQUENCE, "the attribute certificate")?.inside();
        let info = whole.expect(SEQUENCE, "the content of the attribute certificate")?;
        let algorithm = whole.expect(SEQUENCE, "the algorithm of the signature")?;
        let signature = whole.expect(BIT_STRING, "the signature")?.bits()?;
        whole.finish()?;

        let mut reader = info.inside();
        if reader.expect(INTEGER, "the version")?.content != [1] {
            return Err(malformed("the attribute certificate is not of version 2"));
        }
        let holder = read_holder(reader.expect(SEQUENCE, "the holder")?)?;
        let issuers = read_issuer(reader.any()?)?;
        if reader.expect(SEQUENCE, "the algorithm of the signature")?.raw != algorithm.raw {
            return Err(malformed("the attribute certificate names two algorithms"));
        }
        reader.expect(INTEGER, "the serial number")?;
        let mut validity = reader.expect(SEQUENCE, "the time of validity")?.inside();
        let mut time = || read_time(validity.expect(GENERALIZED_TIME, "the time of validity")?);
        let (not_before_s, not_after_s) = (time()?, time()?);
        let (vo, server, fqans) = read_attributes(reader.expect(SEQUENCE, "the attributes")?)?;
        reader.optional(BIT_STRING)?;
        let mut certificate = Self {
            signed_part: info.raw,
            signature_algorithm_content: algorithm.content,
            signature,
            holder,
            issuers,
            not_before_s,
            not_after_s,
            vo,
            server,
            fqans,
            certificates: Vec::new(),
            targets: None,
            unknown_critical: None,
        };
        if let Some(extensions) = reader.optional(SEQUENCE)? {
            certificate.read_extensions(extensions)?;
        }
        reader.finish()?;
        Ok(certificate)
    }

    fn read_extensions(&mut self, extensions: Element<'a>) -> Result<(), Malformed> {
        let mut reader = extensions.inside();
        let mut seen = Vec::new();
        while !reader.is_at_end() {
            let mut extension = reader.expect(SEQUENCE, "an extension")?.inside();
            let oid = der::dotted(extension.expect(OBJECT_IDENTIFIER, "the name of an extension")?.content)?;
            let is_critical = extension.optional(BOOLEAN)?.is_some_and(|flag| flag.content != [0]);
            let value = extension.expect(OCTET_STRING, "the content of an extension")?.content;
            extension.finish()?;
            if seen.contains(&oid) {
                return Err(malformed("the attribute certificate has an extension twice"));
            }
            match &*oid {
                CERTIFICATES => self.certificates = read_certificates(value)?,
                TARGETS => self.targets = Some(read_targets(value)?),
                NO_REVOCATION | AUTHORITY_KEY | GENERIC_ATTRIBUTES => {}
                _ if is_critical => self.unknown_critical = Some(oid.clone()),
                _ => {}
            }
            seen.push(oid);
        }
        Ok(())
    }

    /// The host of the VO's server, without its port.
    #[must_use]
    pub fn server_host(&self) -> &str {
        self.server.split_once(':').map_or(&*self.server, |(host, _)| host)
    }

    /// The FQANs without `/Role=NULL` and `/Capability=NULL`, which mean nothing.
    pub fn plain_fqans(&self) -> impl Iterator<Item = &str> {
        self.fqans.iter().map(|fqan| plain_fqan(fqan))
    }

    /// The names of who signed it, in one line.
    ///
    /// # Errors
    /// When a name cannot be read.
    pub fn issuer_lines(&self) -> Result<Vec<String>, Malformed> {
        self.issuers.iter().map(|name| dn::one_line(name)).collect()
    }
}

/// An FQAN without `/Role=NULL` and `/Capability=NULL`.
#[must_use]
pub fn plain_fqan(fqan: &str) -> &str {
    let fqan = fqan.strip_suffix("/Capability=NULL").unwrap_or(fqan);
    fqan.strip_suffix("/Role=NULL").unwrap_or(fqan)
}

/// `Holder` (RFC 5755 §4.1).
fn read_holder(holder: Element<'_>) -> Result<Holder<'_>, Malformed> {
    let mut reader = holder.inside();
    let mut found = Holder::default();
    if let Some(base) = reader.optional(context(0))? {
        let mut base = base.inside();
        found.issuers = directory_names(base.expect(SEQUENCE, "the issuer of the holder's certificate")?)?;
        found.serial = Some(base.expect(INTEGER, "the number of the holder's certificate")?.content);
        base.optional(BIT_STRING)?;
        base.finish()?;
    }
    if let Some(names) = reader.optional(context(1))? {
        found.names = directory_names(names)?;
    }
    reader.optional(context(2))?;
    reader.finish()?;
    Ok(found)
}

/// `AttCertIssuer`: the names alone, or `[0]` around a sequence of them.
fn read_issuer(issuer: Element<'_>) -> Result<Vec<&[u8]>, Malformed> {
    if issuer.tag == context(0) {
        let names = issuer.inside().expect(SEQUENCE, "the issuer of the attributes")?;
        return directory_names(names);
    }
    directory_names(issuer)
}

/// The names of kind `[4] directoryName` in a series of `GeneralName`.
fn directory_names(names: Element<'_>) -> Result<Vec<&[u8]>, Malformed> {
    let mut reader = names.inside();
    let mut found = Vec::new();
    while !reader.is_at_end() {
        let name = reader.any()?;
        if name.tag == context(4) {
            found.push(der::only(name.content, SEQUENCE, "a name")?.raw);
        }
    }
    Ok(found)
}

fn read_time(time: Element<'_>) -> Result<i64, Malformed> {
    let (_, time) = GeneralizedTime::from_der(time.raw).map_err(|_| malformed("a time cannot be read"))?;
    let time = time.utc_datetime().map_err(|_| malformed("a time cannot be read"))?;
    Ok(time.unix_timestamp())
}

/// The VO, its server and the FQANs. Other attributes are passed over.
fn read_attributes(attributes: Element<'_>) -> Result<(String, String, Vec<String>), Malformed> {
    let mut reader = attributes.inside();
    let mut found = None;
    while !reader.is_at_end() {
        let mut attribute = reader.expect(SEQUENCE, "an attribute")?.inside();
        let kind = der::dotted(attribute.expect(OBJECT_IDENTIFIER, "the kind of an attribute")?.content)?;
        let values = attribute.expect(SET, "the values of an attribute")?;
        if kind == FQANS {
            if found.is_some() {
                return Err(malformed("the VOMS attributes are there twice"));
            }
            let only = der::only(values.content, SEQUENCE, "the VOMS attributes")?;
            found = Some(read_fqans(only)?);
        }
    }
    found.ok_or_else(|| malformed("there are no VOMS attributes in it"))
}

/// `IetfAttrSyntax` (RFC 5755 §4.4): who says so, as `vo://host:port`, and the FQANs.
fn read_fqans(syntax: Element<'_>) -> Result<(String, String, Vec<String>), Malformed> {
    let mut reader = syntax.inside();
    let authority = reader.expect(context(0), "the VO of the attributes")?;
    let uri = der::only(authority.content, context_primitive(6), "the VO of the attributes")?;
    let uri = text(uri.content)?;
    let (vo, server) = uri
        .split_once("://")
        .filter(|(vo, _)| is_vo_name(vo))
        .ok_or_else(|| malformed("the VO of the attributes is not named as vo://host:port"))?;
    let mut values = reader.expect(SEQUENCE, "the attributes")?.inside();
    reader.finish()?;
    let mut fqans = Vec::new();
    while !values.is_at_end() {
        let fqan = text(values.expect(OCTET_STRING, "an attribute")?.content)?;
        if fqans.len() == VOMS_FQANS_MAX || fqan.len() > VOMS_FQAN_BYTES_MAX {
            return Err(malformed("there are too many attributes, or one is too long"));
        }
        fqans.push(fqan.to_owned());
    }
    if fqans.is_empty() {
        return Err(malformed("the list of attributes is empty"));
    }
    Ok((vo.to_owned(), server.to_owned(), fqans))
}

/// It becomes the name of a directory and a part of rules.
fn is_vo_name(vo: &str) -> bool {
    !vo.is_empty()
        && !vo.starts_with('.')
        && vo
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.chars().any(char::is_control))
        .ok_or_else(|| malformed("an attribute is not plain text"))
}

fn read_certificates(value: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
    let mut lists = der::only(value, SEQUENCE, "the server's certificates")?.inside();
    let mut certificates = Vec::new();
    while !lists.is_at_end() {
        let mut list = lists.expect(SEQUENCE, "the server's certificates")?.inside();
        while !list.is_at_end() {
            if certificates.len() == VOMS_CERTIFICATES_MAX {
                return Err(malformed("the server has too many certificates"));
            }
            certificates.push(list.expect(SEQUENCE, "a certificate of the server")?.raw);
        }
    }
    Ok(certificates)
}

/// The host names and URIs in a list of targets, at whatever depth: programs disagree about the
/// tags around them.
fn read_targets(value: &[u8]) -> Result<Vec<String>, Malformed> {
    let list = der::only(value, SEQUENCE, "the targets")?;
    let mut open = vec![list.inside()];
    let mut targets = Vec::new();
    while let Some(mut reader) = open.pop() {
        if reader.is_at_end() {
            continue;
        }
        let element = reader.any()?;
        open.push(reader);
        if element.tag & 0x20 != 0 {
            if open.len() == TARGET_DEPTH_MAX {
                return Err(malformed("the targets are nested too deeply"));
            }
            open.push(Reader::new(element.content));
        } else if [context_primitive(2), context_primitive(6)].contains(&element.tag) {
            if targets.len() == VOMS_FQANS_MAX {
                return Err(malformed("there are too many targets"));
            }
            targets.push(text(element.content)?.to_owned());
        }
    }
    Ok(targets)
}
