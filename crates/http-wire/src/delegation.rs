//! Messages of the delegation service of GridSite, port type version 2: SOAP 1.1, rpc/literal, over
//! HTTPS. Both sides of it: davix asks our server in this form, and our client asks others.
//!
//! Only local names count, whatever their prefix; texts are trimmed, as PEM may be.

use crate::limits::XML_DEPTH_MAX;
use quick_xml::Reader;
use quick_xml::events::Event;
use types::limits::DELEGATION_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Phase, Side};

use crate::fault::{bad_request, misbehaved};
use crate::webdav::resolve;
use crate::xml::{escape, is_legal};

const NAMESPACE: &str = "http://www.gridsite.org/namespaces/delegation-2";
/// What the service says of itself; davix takes it for version 2 by its first character.
const INTERFACE_VERSION: &str = "2.0.0";

/// What a client asks the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelegationRequest {
    /// Which version of the interface is spoken, or which one the service has.
    Version {
        /// Of the interface, and not of the service.
        of_interface: bool,
    },
    /// A word about the service.
    Metadata,
    /// Until when the stored credential holds.
    TerminationTime {
        /// The name that the client gave it.
        id: String,
    },
    /// A request to be signed, for a credential of a name that the client chooses.
    ProxyRequest {
        /// The name.
        id: String,
    },
    /// A request to be signed, for a name that the service chooses.
    NewProxyRequest,
    /// The signed proxy with its chain.
    PutProxy {
        /// The name.
        id: String,
        /// PEM, the proxy first.
        chain: String,
    },
    /// The credential is no longer wanted.
    Destroy {
        /// The name.
        id: String,
    },
}

/// What the service answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelegationAnswer {
    /// A version, or a word about the service.
    Text(String),
    /// The end of the stored credential as an XML Schema `dateTime`.
    TerminationTime(String),
    /// A request (PKCS#10) in PEM.
    ProxyRequest(String),
    /// The same, with the name that the service chose.
    NewProxyRequest {
        /// The name.
        id: String,
        /// The request.
        request: String,
    },
    /// It is done.
    Done,
}

impl DelegationRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// `bad_request` for what is not one.
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        let fields =
            fields(body).map_err(|why| bad_request(format!("the delegation request cannot be read: {why}")))?;
        let field = |name: &str| {
            fields
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, text)| text.clone())
        };
        let id = || field("delegationID").unwrap_or_default();
        let has = |name: &str| fields.iter().any(|(known, _)| known == name);
        Ok(if has("getInterfaceVersion") {
            Self::Version { of_interface: true }
        } else if has("getVersion") {
            Self::Version { of_interface: false }
        } else if has("getServiceMetadata") {
            Self::Metadata
        } else if has("getTerminationTime") {
            Self::TerminationTime { id: id() }
        } else if has("getProxyReq") || has("renewProxyReq") {
            Self::ProxyRequest { id: id() }
        } else if has("getNewProxyReq") {
            Self::NewProxyRequest
        } else if has("putProxy") {
            let chain = field("proxy").ok_or_else(|| bad_request("there is no proxy in it"))?;
            Self::PutProxy { id: id(), chain }
        } else if has("destroy") {
            Self::Destroy { id: id() }
        } else {
            return Err(bad_request("the delegation service knows no such operation"));
        })
    }

    /// Writes the request, for our client.
    #[must_use]
    pub fn to_body(&self) -> String {
        let identified = |name: &str, id: &str, more: &str| {
            format!("<d:{name}><delegationID>{}</delegationID>{more}</d:{name}>", escape(id))
        };
        envelope(&match self {
            Self::Version { of_interface: true } => "<d:getInterfaceVersion/>".to_owned(),
            Self::Version { of_interface: false } => "<d:getVersion/>".to_owned(),
            Self::Metadata => "<d:getServiceMetadata/>".to_owned(),
            Self::TerminationTime { id } => identified("getTerminationTime", id, ""),
            Self::ProxyRequest { id } => identified("getProxyReq", id, ""),
            Self::NewProxyRequest => "<d:getNewProxyReq/>".to_owned(),
            Self::PutProxy { id, chain } => {
                identified("putProxy", id, &format!("<proxy>{}</proxy>", escape(chain.as_str())))
            }
            Self::Destroy { id } => identified("destroy", id, ""),
        })
    }

    /// The name of the operation, as elements of the answer have it.
    fn operation(&self) -> &'static str {
        match self {
            Self::Version { of_interface: true } => "getInterfaceVersion",
            Self::Version { of_interface: false } => "getVersion",
            Self::Metadata => "getServiceMetadata",
            Self::TerminationTime { .. } => "getTerminationTime",
            Self::ProxyRequest { .. } => "getProxyReq",
            Self::NewProxyRequest => "getNewProxyReq",
            Self::PutProxy { .. } => "putProxy",
            Self::Destroy { .. } => "destroy",
        }
    }

    /// The answer to a question about versions.
    #[must_use]
    pub fn version() -> DelegationAnswer {
        DelegationAnswer::Text(INTERFACE_VERSION.to_owned())
    }

    /// Writes the answer to this request, for our server. A client may have asked to renew a proxy,
    /// which is the same; `body` is what it sent.
    #[must_use]
    pub fn answer(&self, answer: &DelegationAnswer, body: &[u8]) -> String {
        let renews =
            matches!(self, Self::ProxyRequest { .. }) && memchr::memmem::find(body, b"renewProxyReq").is_some();
        let operation = if renews { "renewProxyReq" } else { self.operation() };
        let inner = match answer {
            DelegationAnswer::Text(text)
            | DelegationAnswer::TerminationTime(text)
            | DelegationAnswer::ProxyRequest(text) => {
                format!("<{operation}Return>{}</{operation}Return>", escape(text.as_str()))
            }
            DelegationAnswer::NewProxyRequest { id, request } => format!(
                "<{operation}Return><proxyRequest>{}</proxyRequest><delegationID>{}</delegationID></{operation}Return>",
                escape(request.as_str()),
                escape(id.as_str())
            ),
            DelegationAnswer::Done => String::new(),
        };
        envelope(&format!("<d:{operation}Response>{inner}</d:{operation}Response>"))
    }

    /// Reads the answer to this request, for our client.
    ///
    /// # Errors
    /// `peer_failed` with the service's own words for a fault; `peer_misbehaved` for what is no
    /// answer.
    pub fn parse_answer(&self, body: &[u8]) -> Result<DelegationAnswer, Error> {
        let fields = fields(body).map_err(|why| misbehaved(format!("the delegation service's answer: {why}")))?;
        let field = |name: &str| {
            fields
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, text)| text.clone())
        };
        if field("Fault").is_some() {
            let words = field("msg").or_else(|| field("faultstring")).unwrap_or_default();
            let error = Error::new(ErrorCode::PeerFailed, Side::Active, Phase::Authenticate);
            return Err(error.with_peer(None, &words));
        }
        let returned = field(&format!("{}Return", self.operation()));
        let text = || {
            returned
                .clone()
                .ok_or_else(|| misbehaved("the delegation service's answer lacks its value"))
        };
        Ok(match self {
            Self::Version { .. } | Self::Metadata => DelegationAnswer::Text(text()?),
            Self::TerminationTime { .. } => DelegationAnswer::TerminationTime(text()?),
            Self::ProxyRequest { .. } => DelegationAnswer::ProxyRequest(text()?),
            Self::NewProxyRequest => DelegationAnswer::NewProxyRequest {
                id: field("delegationID").unwrap_or_default(),
                request: field("proxyRequest").unwrap_or_default(),
            },
            Self::PutProxy { .. } | Self::Destroy { .. } => DelegationAnswer::Done,
        })
    }
}

/// A refusal of the service.
#[must_use]
pub fn delegation_fault(words: &str) -> String {
    let words = escape(words);
    envelope(&format!(
        "<s:Fault><faultcode>s:Client</faultcode><faultstring>{words}</faultstring><detail><d:DelegationException>\
         <msg>{words}</msg></d:DelegationException></detail></s:Fault>"
    ))
}

fn envelope(content: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:d=\"{NAMESPACE}\"><s:Body>{content}</s:Body></s:Envelope>"
    )
}

/// The elements of a message by their local names, in order, each with its own text.
fn fields(body: &[u8]) -> Result<Vec<(String, String)>, String> {
    if body.len() > DELEGATION_BODY_BYTES_MAX {
        return Err(format!("it is longer than {DELEGATION_BODY_BYTES_MAX} bytes"));
    }
    let body = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
    let mut reader = Reader::from_str(body.trim_start_matches('\u{feff}'));
    reader.config_mut().expand_empty_elements = true;
    let mut all: Vec<(String, String)> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut ended = false;
    loop {
        match reader.read_event().map_err(|cause| cause.to_string())? {
            Event::Start(tag) => {
                if open.len() >= XML_DEPTH_MAX {
                    return Err("it is nested too deeply".to_owned());
                }
                open.push(all.len());
                all.push((tag.local_name().into_inner().to_owned(), String::new()));
            }
            Event::End(_) => {
                open.pop();
                ended = open.is_empty();
            }
            Event::Text(text) => append(&mut all, &open, &text),
            Event::CData(text) => append(&mut all, &open, &text),
            Event::GeneralRef(entity) => {
                let character = resolve(&entity).map_err(|_| "it has an entity of its own".to_owned())?;
                append(&mut all, &open, character.encode_utf8(&mut [0; 4]));
            }
            Event::DocType(_) => return Err("it has a document type".to_owned()),
            Event::Eof => break,
            _ => {}
        }
    }
    if !ended {
        return Err("it ends too early".to_owned());
    }
    for (_, text) in &mut all {
        if !text.chars().all(is_legal) {
            return Err("it has a character that XML cannot hold".to_owned());
        }
        *text = text.trim().to_owned();
    }
    Ok(all)
}

fn append(all: &mut [(String, String)], open: &[usize], text: &str) {
    if let Some(place) = open.last() {
        all[*place].1.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<DelegationRequest> {
        let id = || "12<34>&".to_owned();
        vec![
            DelegationRequest::Version { of_interface: true },
            DelegationRequest::Version { of_interface: false },
            DelegationRequest::Metadata,
            DelegationRequest::TerminationTime { id: id() },
            DelegationRequest::ProxyRequest { id: id() },
            DelegationRequest::NewProxyRequest,
            DelegationRequest::PutProxy {
                id: id(),
                chain: "-----BEGIN CERTIFICATE-----\nAA+/=\n-----END CERTIFICATE-----".into(),
            },
            DelegationRequest::Destroy { id: id() },
        ]
    }

    #[test]
    fn every_request_and_answer_is_read_as_it_was_written() {
        for request in requests() {
            let body = request.to_body();
            assert_eq!(DelegationRequest::parse(body.as_bytes()).unwrap(), request);
            let answer = match &request {
                DelegationRequest::Version { .. } | DelegationRequest::Metadata => DelegationRequest::version(),
                DelegationRequest::TerminationTime { .. } => {
                    DelegationAnswer::TerminationTime("2026-11-22T05:00:00Z".into())
                }
                DelegationRequest::ProxyRequest { .. } => DelegationAnswer::ProxyRequest("a\nb".into()),
                DelegationRequest::NewProxyRequest => DelegationAnswer::NewProxyRequest {
                    id: "x".into(),
                    request: "y".into(),
                },
                DelegationRequest::PutProxy { .. } | DelegationRequest::Destroy { .. } => DelegationAnswer::Done,
            };
            let text = request.answer(&answer, body.as_bytes());
            assert_eq!(request.parse_answer(text.as_bytes()).unwrap(), answer, "{text}");
            let refused = request.parse_answer(delegation_fault("no <such> thing").as_bytes());
            assert!(refused.unwrap_err().public().contains("no <such> thing"));
        }
    }

    #[test]
    fn what_davix_sends_is_understood() {
        let body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<SOAP-ENV:Envelope \
            xmlns:SOAP-ENV=\"http://schemas.xmlsoap.org/soap/envelope/\" \
            xmlns:tns2=\"http://www.gridsite.org/namespaces/delegation-2\"><SOAP-ENV:Body \
            SOAP-ENV:encodingStyle=\"http://schemas.xmlsoap.org/soap/encoding/\"><tns2:renewProxyReq>\
            <delegationID>1234</delegationID></tns2:renewProxyReq></SOAP-ENV:Body></SOAP-ENV:Envelope>";
        let request = DelegationRequest::parse(body.as_bytes()).unwrap();
        assert_eq!(request, DelegationRequest::ProxyRequest { id: "1234".into() });
        let answer = request.answer(&DelegationAnswer::ProxyRequest("PEM".into()), body.as_bytes());
        assert!(answer.contains("renewProxyReqReturn>PEM<"), "{answer}");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let deep = format!(
            "{}{}",
            "<a>".repeat(XML_DEPTH_MAX + 1),
            "</a>".repeat(XML_DEPTH_MAX + 1)
        );
        for bad in [
            "",
            "<a>",
            "<a></b>",
            "<!DOCTYPE x [<!ENTITY y \"z\">]><getVersion>&y;</getVersion>",
            "<other/>",
            "<putProxy/>",
            "<getNewProxyReq>\0</getNewProxyReq>",
            "<getNewProxyReq>&#x0;</getNewProxyReq>",
            &deep,
            &"x".repeat(DELEGATION_BODY_BYTES_MAX + 1),
        ] {
            let error = DelegationRequest::parse(bad.as_bytes()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::BadRequest, "{bad:.40}");
        }
        assert!(DelegationRequest::Metadata.parse_answer(b"<html/>").is_err());
    }
}
