//! Who we are to a queue, and delegation by its REST API (FTS3: `whoami`, `delegation`).

use remote::ServiceMethod;
use serde_json::Value;
use time::PrimitiveDateTime;
use time::macros::format_description;
use types::{ErrorCode, Result, Secret};

use super::service::{Queue, is_plain};

/// The user, as the queue knows them.
pub(super) struct Who {
    /// The name of their delegated proxy.
    pub(super) delegation_id: String,
    /// The namespaces of their jobs' identifiers, one for each of their virtual organisations.
    pub(super) vo_ids: Vec<[u8; 16]>,
}

/// Who we are to the queue.
///
/// # Errors
/// The queue's refusal; `peer_misbehaved` if it names no delegation.
pub(super) async fn whoami(queue: &Queue<'_>) -> Result<Who> {
    let path = "/whoami";
    let told = queue.get(path).await?;
    let id = told["delegation_id"].as_str().filter(|id| is_plain(id));
    let vo_ids = told["vos_id"].as_array().into_iter().flatten();
    Ok(Who {
        delegation_id: id
            .ok_or_else(|| queue.misbehaved(path, "it names no delegation"))?
            .to_owned(),
        vo_ids: vo_ids.filter_map(Value::as_str).filter_map(uuid_bytes).collect(),
    })
}

/// Delegates a proxy, unless the queue has one that lasts for `left_s_min` seconds.
///
/// # Errors
/// No verified TLS, or the queue's refusal of the proxy.
pub(super) async fn ensure(queue: &Queue<'_>, who: &Who, left_s_min: i64) -> Result<()> {
    let path = format!("/delegation/{}", who.delegation_id);
    let answer = queue.ask(ServiceMethod::Get, &path).await?;
    if !answer.is_success() {
        // It takes no proxies, or not from us. If it needs one, it refuses the job.
        return Ok(());
    }
    let told = queue.read(&path, &answer)?;
    let ends_s = told["termination_time"].as_str().and_then(utc_s);
    let now_s = time::OffsetDateTime::now_utc().unix_timestamp();
    match ends_s {
        Some(ends_s) if ends_s - now_s >= left_s_min => Ok(()),
        // A proxy that ends sooner than wished serves too, if this connection cannot carry another.
        Some(ends_s) if ends_s > now_s => match delegate(queue, who).await {
            Err(error) if error.code() == ErrorCode::CertificateUnusable => Ok(()),
            done => done,
        },
        _ => delegate(queue, who).await,
    }
}

/// Delegates a proxy of our certificate.
///
/// # Errors
/// As [`ensure`], and without a certificate.
pub(super) async fn delegate(queue: &Queue<'_>, who: &Who) -> Result<()> {
    let path = format!("/delegation/{}/request", who.delegation_id);
    let request = queue.ask(ServiceMethod::Get, &path).await?;
    if !request.is_success() {
        return Err(queue.refusal(&path, &request));
    }
    let place = queue.place(&path)?;
    let client = &queue.session.client;
    let chain = Secret::new(client.sign_delegation(&place, request.body.expose())?);
    let path = format!("/delegation/{}/credential", who.delegation_id);
    let stored = queue.send(ServiceMethod::Put, &path, &chain).await?;
    match stored.is_success() {
        true => Ok(()),
        false => Err(queue.refusal(&path, &stored)),
    }
}

/// A time of FTS's API: UTC without zone or fraction. In seconds since 1970.
pub(super) fn utc_s(text: &str) -> Option<i64> {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    let whole = text.get(..19)?;
    Some(
        PrimitiveDateTime::parse(whole, form)
            .ok()?
            .assume_utc()
            .unix_timestamp(),
    )
}

fn uuid_bytes(text: &str) -> Option<[u8; 16]> {
    let digits = text.replace('-', "");
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_identifiers_of_fts_are_read() {
        assert_eq!(utc_s("1970-01-02T00:00:01"), Some(86_401));
        assert_eq!(utc_s("2026-11-21T18:46:30Z"), Some(1_795_286_790));
        assert_eq!(utc_s("soon"), None);
        let id = uuid_bytes("477b9065-8416-5b27-be32-ff1573788e71").unwrap();
        // The job that fts-rest-flask made for the name "abc" of this virtual organisation.
        let job = identity::name_uuid::name_uuid(id, "abc");
        assert_eq!(types::uuid_text(job, 5), "ffba5b62-87f9-5c14-8d8f-fc484099c842");
        assert_eq!(uuid_bytes("477b"), None);
    }
}
