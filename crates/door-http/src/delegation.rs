//! Delegation of credentials: the SOAP service of GridSite, which davix asks, and the REST service of FTS; and what a
//! copy does with what was delegated.
//!
//! `POST /delegation` is the SOAP service; `/whoami` and `/delegation/ID…` the other. Where delegation is switched on
//! these paths are not part of any export. Whoever delegates does so by the certificate of the connection: a token has
//! nothing to delegate.

use crate::limits::{DELEGATION_LEFT_ASKED_MIN, DELEGATION_LEFT_MIN};
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use endpoint::refusal;
use http_wire::{
    ContentType, CopyRequest, Delegation, DelegationAnswer, DelegationRequest, Method, RequestHead, delegation_fault,
};
use identity::delegation::{Delegations, Delegator};
use net::tls::ClientIdentity;
use serde_json::{Value, json};
use types::limits::DELEGATION_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Location, Phase, Result, Side, uuid_text};

use crate::exchange::Exchange;

const SERVICE: &str = "delegation";
const WHOAMI: &str = "whoami";
/// From which FTS' clients make the identifiers of VOs.
const BASE_ID: &str = "01874efb-4735-4595-bc9c-591aef8240c9";

/// What a path of the service asks for.
pub(crate) enum Asked {
    Soap,
    Whoami,
    /// `/delegation/ID`
    Credential(String),
    /// `/delegation/ID/request`
    Request(String),
    /// `/delegation/ID/credential`
    Put(String),
}

/// What a request asks of the service; `None` when it is about files, or nothing can be delegated here.
pub(crate) fn asked(exchange: &Exchange<'_>, head: &RequestHead) -> Option<Asked> {
    exchange.door.settings.delegations.as_ref()?;
    let mut words = exchange.path.components();
    let path = (words.next()?, words.next(), words.next(), words.next());
    Some(match path {
        (WHOAMI, None, ..) if head.method == Method::Get => Asked::Whoami,
        (SERVICE, None, ..) if head.method == Method::Post => Asked::Soap,
        (SERVICE, Some(id), None, _) => Asked::Credential(id.to_owned()),
        (SERVICE, Some(id), Some("request"), None) => Asked::Request(id.to_owned()),
        (SERVICE, Some(id), Some("credential"), None) => Asked::Put(id.to_owned()),
        _ => return None,
    })
}

/// Answers a request that is one of the service's.
pub(crate) async fn answer(exchange: &mut Exchange<'_>, head: &RequestHead, asked: Asked) -> Result<()> {
    let Some(delegations) = exchange.door.settings.delegations.clone() else {
        return Err(refusal(ErrorCode::NotFound, &exchange.path));
    };
    let owner = delegator(exchange)?;
    match (&asked, &head.method) {
        (Asked::Soap, _) => soap(exchange, &delegations, &owner).await?,
        (Asked::Whoami, _) => {
            let text = whoami(&owner).to_string();
            exchange
                .whole(200, text.as_bytes(), |head| head.content_type(ContentType::Json))
                .await?;
        }
        (Asked::Credential(id), Method::Get) => {
            own(&owner, id)?;
            let text = describe(&delegations, &owner, id).to_string();
            exchange
                .whole(200, text.as_bytes(), |head| head.content_type(ContentType::Json))
                .await?;
        }
        (Asked::Credential(id), Method::Delete) => {
            own(&owner, id)?;
            match delegations.remove(&owner, id) {
                true => exchange.bare(204, |head| head).await?,
                false => return Err(refusal(ErrorCode::NotFound, &exchange.path)),
            }
        }
        (Asked::Request(id), Method::Get) => {
            own(&owner, id)?;
            let request = request(delegations, owner, id.clone()).await?;
            exchange
                .whole(200, request.as_bytes(), |head| head.content_type(ContentType::Text))
                .await?;
        }
        (Asked::Put(id), Method::Put | Method::Post) => {
            own(&owner, id)?;
            let chain = exchange.small_body(DELEGATION_BODY_BYTES_MAX).await?;
            delegations.put(&owner, id, &chain, &exchange.door.settings.site.authenticator)?;
            exchange.whole(201, &[], |head| head).await?;
        }
        _ => return Err(refusal(ErrorCode::MethodNotAllowed, &exchange.path)),
    }
    Ok(())
}

/// Whoever holds the certificate of the connection.
fn delegator(exchange: &mut Exchange<'_>) -> Result<Delegator> {
    exchange.note_visitor();
    let visitor = &exchange.visitor;
    if let credentials::Credential::RefusedCertificate(error) = &**visitor {
        return Err((**error).clone());
    }
    Delegator::of(visitor).ok_or_else(|| {
        let error = Error::new(ErrorCode::Unauthenticated, Side::Client, Phase::Authenticate);
        error.with_detail("a client certificate or proxy is needed to delegate one")
    })
}

/// FTS' clients have one name, and nobody asks for another's.
fn own(owner: &Delegator, id: &str) -> Result<()> {
    if id == owner.id() {
        return Ok(());
    }
    let error = Error::new(ErrorCode::Forbidden, Side::Client, Phase::Authorize);
    Err(error.with_detail(format!("your delegation has the name {}", owner.id())))
}

/// Making a key takes long.
async fn request(delegations: Delegations, owner: Delegator, id: String) -> Result<String> {
    let made = execution::blocking(move || delegations.request(&owner, &id)).await;
    made.unwrap_or_else(|_| Err(Error::new(ErrorCode::Internal, Side::Active, Phase::Authenticate)))
}

fn whoami(owner: &Delegator) -> Value {
    let mut vos: Vec<&str> = Vec::new();
    for vo in owner.fqans().iter().filter_map(|fqan| fqan.split('/').nth(1)) {
        if !vo.is_empty() && !vos.contains(&vo) {
            vos.push(vo);
        }
    }
    let vos_id: Vec<String> = vos.iter().map(|vo| vo_id(vo)).collect();
    json!({
        "user_dn": owner.dn(),
        "dn": [owner.dn()],
        "voms_cred": owner.fqans(),
        "vos": vos,
        "vos_id": vos_id,
        "roles": [],
        "level": {},
        "base_id": BASE_ID,
        "delegation_id": owner.id(),
        "method": "certificate",
        "is_root": false,
    })
}

/// The identifier that FTS gives to a VO: a UUID of version 5 (RFC 9562 §5.5) of its name.
fn vo_id(vo: &str) -> String {
    let base = u128::from_str_radix(&BASE_ID.replace('-', ""), 16).unwrap_or_default();
    let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(&base.to_be_bytes());
    hash.update(vo.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finish().as_ref()[..16]);
    uuid_text(bytes, 5)
}

fn describe(delegations: &Delegations, owner: &Delegator, id: &str) -> Value {
    match delegations.expires_s(owner, id).and_then(date_time) {
        Some(end) => json!({"termination_time": end, "voms_attrs": owner.fqans()}),
        None => Value::Null,
    }
}

/// A time in UTC, as FTS writes it.
fn date_time(time_s: i64) -> Option<String> {
    let format = time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    time::OffsetDateTime::from_unix_timestamp(time_s)
        .ok()?
        .format(format)
        .ok()
}

async fn soap(exchange: &mut Exchange<'_>, delegations: &Delegations, owner: &Delegator) -> Result<()> {
    let body = exchange.small_body(DELEGATION_BODY_BYTES_MAX).await?;
    let asked = DelegationRequest::parse(&body)?;
    let outcome = act(exchange, delegations, owner, &asked).await;
    let (status, text) = match outcome {
        Ok(answer) => (200, asked.answer(&answer, &body)),
        // The status of a fault is fixed (SOAP 1.1 §6.2).
        Err(error) => {
            exchange.record.error = Some((&error).into());
            (500, delegation_fault(&error.public()))
        }
    };
    exchange
        .whole(status, text.as_bytes(), |head| head.content_type(ContentType::Xml))
        .await
}

async fn act(
    exchange: &Exchange<'_>,
    delegations: &Delegations,
    owner: &Delegator,
    asked: &DelegationRequest,
) -> Result<DelegationAnswer> {
    let missing = || Error::new(ErrorCode::DelegationMissing, Side::Client, Phase::Authenticate);
    let of = |id: &String| request(delegations.clone(), owner.clone(), id.clone());
    Ok(match asked {
        DelegationRequest::Version { .. } => DelegationRequest::version(),
        DelegationRequest::Metadata => DelegationAnswer::Text(exchange.door.settings.site.server_name.clone()),
        DelegationRequest::TerminationTime { id } => {
            let end = delegations
                .expires_s(owner, id)
                .and_then(date_time)
                .ok_or_else(missing)?;
            DelegationAnswer::TerminationTime(format!("{end}Z"))
        }
        DelegationRequest::ProxyRequest { id } => DelegationAnswer::ProxyRequest(of(id).await?),
        DelegationRequest::NewProxyRequest => {
            let id = owner.id();
            let request = of(&id).await?;
            DelegationAnswer::NewProxyRequest { id, request }
        }
        DelegationRequest::PutProxy { id, chain } => {
            let authenticator = &exchange.door.settings.site.authenticator;
            delegations.put(owner, id, chain.as_bytes(), authenticator)?;
            DelegationAnswer::Done
        }
        DelegationRequest::Destroy { id } => match delegations.remove(owner, id) {
            true => DelegationAnswer::Done,
            false => return Err(missing()),
        },
    })
}

/// What a copy shows to the other side.
pub(crate) enum Shown {
    /// This certificate, if there is one.
    Identity(Option<ClientIdentity>),
    /// The client is to delegate one, and to come again: it has been told.
    Asked,
}

/// Finds the credential that a copy's client has delegated, or asks the client for it.
pub(crate) async fn of_copy(
    exchange: &mut Exchange<'_>,
    head: &RequestHead,
    copy: &CopyRequest,
    other: &Location,
) -> Result<Shown> {
    let is_demanded = copy.delegation == Delegation::GridSite;
    let nothing = Ok(Shown::Identity(None));
    if copy.delegation == Delegation::None || (!is_demanded && copy.forwarded.has_authorization()) {
        return nothing;
    }
    let unsupported = |why: &str| {
        let error = Error::new(ErrorCode::CredentialUnsupported, Side::Client, Phase::Authenticate);
        Err(error.with_detail(why))
    };
    let Some(delegations) = exchange.door.settings.delegations.clone() else {
        return if is_demanded {
            unsupported("only Credential: none is offered")
        } else {
            nothing
        };
    };
    if !other.is_encrypted() && !other.is_xrootd() {
        return if is_demanded {
            unsupported("the other side is asked in clear text, where no certificate can be shown")
        } else {
            nothing
        };
    }
    let owner = match delegator_of_copy(exchange) {
        Ok(owner) => owner,
        Err(error) if is_demanded => return Err(error),
        Err(_) => return nothing,
    };
    let was_asked = head.target.was_asked_to_delegate();
    let left = if was_asked {
        DELEGATION_LEFT_ASKED_MIN
    } else {
        DELEGATION_LEFT_MIN
    };
    match delegations.identity(&owner, left) {
        Some(identity) => Ok(Shown::Identity(Some(identity))),
        None if was_asked && is_demanded => {
            let error = Error::new(ErrorCode::DelegationMissing, Side::Client, Phase::Authenticate);
            Err(error.with_detail("the client was asked for one"))
        }
        None if was_asked => nothing,
        None => ask(exchange, head).await,
    }
}

fn delegator_of_copy(exchange: &Exchange<'_>) -> Result<Delegator> {
    if let credentials::Credential::RefusedCertificate(error) = &*exchange.visitor {
        return Err((**error).clone());
    }
    Delegator::of(&exchange.visitor).ok_or_else(|| {
        let error = Error::new(ErrorCode::DelegationMissing, Side::Client, Phase::Authenticate);
        error.with_detail("a client certificate or proxy is needed to delegate one")
    })
}

/// Sends the client to the service, and then here again (as dCache does it).
async fn ask(exchange: &mut Exchange<'_>, head: &RequestHead) -> Result<Shown> {
    let host = head.host().unwrap_or_default();
    let service = format!("https://{host}/{SERVICE}");
    let again = format!("https://{host}{}", head.target.text_asked_to_delegate());
    exchange
        .whole(302, &[], |head| head.location(&again).delegate_to(&service).no_store())
        .await?;
    Ok(Shown::Asked)
}
