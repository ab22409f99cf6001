//! Targets for the messages of delegation.

use http_wire::{DelegationAnswer, DelegationRequest};

/// Pieces of messages.
pub(crate) const SOAP_WORDS: &[&str] = &[
    "<?xml version=\"1.0\"?>",
    "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>",
    "</s:Body></s:Envelope>",
    "<getInterfaceVersion/>",
    "<getProxyReq>",
    "</getProxyReq>",
    "<renewProxyReq>",
    "<putProxy>",
    "</putProxy>",
    "<proxy>",
    "</proxy>",
    "<destroy>",
    "<delegationID>",
    "</delegationID>",
    "<getProxyReqReturn>",
    "<faultstring>",
    "<![CDATA[",
    "]]>",
    "&lt;",
    "&#x0;",
    "<!DOCTYPE a>",
];

/// A request that was read can be written and reads as the same; so can what answers it, and no
/// text in one becomes an element of the other.
pub(crate) fn delegation(data: &[u8]) {
    let questions = [
        DelegationRequest::Metadata,
        DelegationRequest::TerminationTime { id: String::new() },
        DelegationRequest::ProxyRequest { id: String::new() },
        DelegationRequest::NewProxyRequest,
        DelegationRequest::Destroy { id: String::new() },
    ];
    for question in questions {
        if let Ok(answer) = question.parse_answer(data) {
            let written = question.answer(&answer, b"");
            assert_eq!(question.parse_answer(written.as_bytes()).ok(), Some(answer));
        }
    }
    let Ok(request) = DelegationRequest::parse(data) else {
        return;
    };
    let written = request.to_body();
    assert_eq!(
        DelegationRequest::parse(written.as_bytes()).ok().as_ref(),
        Some(&request)
    );
    let (DelegationRequest::ProxyRequest { id } | DelegationRequest::PutProxy { id, .. }) = &request else {
        return;
    };
    let question = DelegationRequest::ProxyRequest { id: String::new() };
    let answer = DelegationAnswer::ProxyRequest(id.clone());
    let written = question.answer(&answer, b"");
    assert_eq!(question.parse_answer(written.as_bytes()).ok(), Some(answer));
}
