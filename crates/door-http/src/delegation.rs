//! Delegation of credentials: the SOAP service of GridSite, which davix uses, the REST service of
//! FTS, and the use of a delegated credential by a copy.
//!
//! `POST /delegation` is the SOAP service; `/whoami` and `/delegation/ID…` are the REST service.
//! Where delegation is on, these paths belong to no export. A client delegates by the certificate
//! of its connection: a token has nothing to delegate.

use crate::limits::{DELEGATION_LEFT_ASKED_MIN, DELEGATION_LEFT_MIN};
use endpoint::refusal;
use http_wire::{
    ContentType, CopyRequest, Delegation, DelegationAnswer, DelegationRequest, RequestHead, ResponseBuilder,
    delegation_fault,
};
use identity::ShownBy;
use identity::delegation::{Delegations, Delegator};
use identity::name_uuid::{base_id, vo_id};
use net::tls::ClientIdentity;
use serde_json::{Value, json};
use types::limits::DELEGATION_BODY_BYTES_MAX;
use types::{Error, ErrorCode, Location, Phase, Result, Side};

use crate::exchange::FileExchange;
use crate::route::{DELEGATION_SERVICE, DelegationRoute};

/// Answers a request to the service.
pub(crate) async fn answer(exchange: &mut FileExchange<'_, '_>, asked: DelegationRoute) -> Result<()> {
    let Some(delegations) = exchange.door.settings.delegations.clone() else {
        return Err(refusal(ErrorCode::NotFound, &exchange.http.path));
    };
    let owner = delegator(exchange)?;
    match asked {
        DelegationRoute::Soap => soap(exchange, &delegations, &owner).await,
        DelegationRoute::Whoami => tell(exchange, &whoami(&owner)).await,
        DelegationRoute::Describe { id } => {
            owner.check_id(&id)?;
            tell(exchange, &describe(&delegations, &owner, &id)).await
        }
        DelegationRoute::Remove { id } => {
            owner.check_id(&id)?;
            match delegations.remove(&owner, &id) {
                true => exchange.http.bare(204, |head| head).await,
                false => Err(refusal(ErrorCode::NotFound, &exchange.http.path)),
            }
        }
        DelegationRoute::Request { id } => {
            owner.check_id(&id)?;
            let request = request(delegations, owner, id).await?;
            let text = |head: ResponseBuilder| head.content_type(ContentType::Text);
            exchange.http.whole(200, request.as_bytes(), text).await
        }
        DelegationRoute::Put { id } => {
            owner.check_id(&id)?;
            let chain = exchange.http.small_body(DELEGATION_BODY_BYTES_MAX).await?;
            delegations.put(&owner, &id, &chain, &exchange.door.settings.site.authenticator)?;
            exchange.http.whole(201, &[], |head| head).await
        }
        DelegationRoute::WrongMethod => Err(refusal(ErrorCode::MethodNotAllowed, &exchange.http.path)),
    }
}

async fn tell(exchange: &mut FileExchange<'_, '_>, facts: &Value) -> Result<()> {
    let json = |head: ResponseBuilder| head.content_type(ContentType::Json);
    exchange.http.whole(200, facts.to_string().as_bytes(), json).await
}

/// The holder of the connection's certificate.
fn delegator(exchange: &mut FileExchange<'_, '_>) -> Result<Delegator> {
    exchange.http.note_certificate_holder();
    Delegator::required(&exchange.http.certificate_holder)
}

/// Makes the request on a blocking thread, since generating a key takes long.
async fn request(delegations: Delegations, owner: Delegator, id: String) -> Result<String> {
    let make = move || delegations.request(&owner, &id);
    execution::blocking_try(Side::Active, Phase::Authenticate, make).await
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
        "base_id": base_id(),
        "delegation_id": owner.id(),
        "method": "certificate",
        "is_root": false,
    })
}

/// FTS' clients delegate again if the time has passed.
fn describe(delegations: &Delegations, owner: &Delegator, id: &str) -> Value {
    let end = |shown_by| delegations.expires_s(owner, id, shown_by).and_then(date_time);
    match (end(ShownBy::Tls), end(ShownBy::Gsi)) {
        (Some(end), _) => json!({"termination_time": end, "voms_attrs": owner.fqans()}),
        (None, Some(end)) => json!({
            "termination_time": date_time(0),
            "gsi_termination_time": end,
            "voms_attrs": owner.fqans(),
        }),
        (None, None) => Value::Null,
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

async fn soap(exchange: &mut FileExchange<'_, '_>, delegations: &Delegations, owner: &Delegator) -> Result<()> {
    let body = exchange.http.small_body(DELEGATION_BODY_BYTES_MAX).await?;
    let asked = DelegationRequest::parse(&body)?;
    let outcome = act(exchange, delegations, owner, &asked).await;
    let (status, text) = match outcome {
        Ok(answer) => (200, asked.answer(&answer, &body)),
        // The status of a fault is fixed (SOAP 1.1 §6.2).
        Err(error) => {
            exchange.http.record.error = Some((&error).into());
            (500, delegation_fault(&error.public()))
        }
    };
    exchange
        .http
        .whole(status, text.as_bytes(), |head| head.content_type(ContentType::Xml))
        .await
}

async fn act(
    exchange: &FileExchange<'_, '_>,
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
                .expires_s(owner, id, ShownBy::Tls)
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

/// The credential of a copy for the other side.
pub(crate) enum Shown {
    /// This certificate, if there is one.
    Identity(Option<ClientIdentity>),
    /// The client was answered: it must delegate one and repeat the request.
    Asked,
}

/// Finds the credential that the client of a copy has delegated, or asks the client for it.
pub(crate) async fn of_copy(
    exchange: &mut FileExchange<'_, '_>,
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
            unsupported("only Credential: none is offered; [delegation] is not configured")
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
    let shown_by = match other.is_xrootd() {
        true => ShownBy::Gsi,
        false => ShownBy::Tls,
    };
    let identity = delegations.identity(&owner, left, shown_by);
    if identity.is_none() && delegations.identity(&owner, left, ShownBy::Gsi).is_some() {
        let weak = Error::new(ErrorCode::CertificateWeak, Side::Client, Phase::Authenticate);
        let weak =
            weak.with_detail("the stored proxy is signed with SHA-1, and serves copies from root:// servers only");
        exchange.http.record.delegation_error = Some((&weak).into());
    }
    match identity {
        Some(identity) => Ok(Shown::Identity(Some(identity))),
        None if was_asked && is_demanded => {
            let error = Error::new(ErrorCode::DelegationMissing, Side::Client, Phase::Authenticate);
            Err(error.with_detail("the client was asked for one"))
        }
        None if was_asked => nothing,
        None => ask(exchange, head).await,
    }
}

/// Asks the client of a copy for the proxy that the server behind an export is shown, if it offers
/// one; refuses the copy with `missing` otherwise. A token goes before the certificate, also when
/// the client comes again.
pub(crate) async fn ask_or_refuse(
    exchange: &mut FileExchange<'_, '_>,
    head: &RequestHead,
    copy: &CopyRequest,
    missing: Error,
) -> Result<()> {
    let shown = exchange.http.credential.as_deref().ok().and_then(Delegator::of);
    let is_offered = copy.delegation != Delegation::None && shown.is_some();
    if !is_offered || exchange.door.settings.delegations.is_none() || head.target.was_asked_to_delegate() {
        return Err(missing);
    }
    ask(exchange, head).await.map(drop)
}

fn delegator_of_copy(exchange: &FileExchange<'_, '_>) -> Result<Delegator> {
    if let credentials::Credential::RefusedCertificate(error) = &*exchange.http.certificate_holder {
        return Err((**error).clone());
    }
    Delegator::of(&exchange.http.certificate_holder).ok_or_else(|| {
        let error = Error::new(ErrorCode::DelegationMissing, Side::Client, Phase::Authenticate);
        error.with_detail("a client certificate or proxy that allows a further proxy is needed to delegate one")
    })
}

/// Redirects the client to the service, and then back here (as dCache does it).
async fn ask(exchange: &mut FileExchange<'_, '_>, head: &RequestHead) -> Result<Shown> {
    let host = head.host().unwrap_or_default();
    let service = format!("https://{host}{DELEGATION_SERVICE}");
    let again = format!("https://{host}{}", head.target.text_asked_to_delegate());
    exchange
        .http
        .whole(302, &[], |head| head.location(&again).delegate_to(&service).no_store())
        .await?;
    Ok(Shown::Asked)
}
