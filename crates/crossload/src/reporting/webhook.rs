//! A message to a webhook: what came of a run, and its problems.

use std::path::Path;

use credentials::discovery::trust_directory;
use net::tls::{ClientTls, Trust};
use remote::{Access, Resource, ServiceCall, ServiceMethod};
use reports::View;
use tokio::time::timeout;
use types::{Location, Secret, Side};

use super::{not_delivered, secret};
use crate::authorities::read_of_reports;
use crate::command_line::ReportOptions;
use crate::failure::Failure;
use crate::limits::{REPORT_ANSWER_BYTES_MAX, REPORT_ANSWER_TIME};
use crate::made_client::new_client;

/// What a message is sent with.
struct Prepared {
    resource: Resource,
    tls: ClientTls,
}

impl Prepared {
    fn new(options: &ReportOptions) -> Result<Option<Self>, Failure> {
        let Some(location) = place(options)? else {
            return Ok(None);
        };
        let bearer = match &options.webhook_token {
            Some(file) => Some(Secret::new(secret(file)?.expose().trim())),
            None => None,
        };
        let trust = Trust {
            authorities: read_of_reports(&options.report_cacert)?,
            files: Vec::new(),
            directories: trust_directory(|name| std::env::var(name).ok(), Path::is_dir)
                .into_iter()
                .collect(),
            system: true,
            insecure: false,
        };
        let (tls, _) = ClientTls::load(&trust)?;
        let resource = Resource {
            location,
            access: Access {
                bearer,
                ..Access::default()
            },
            side: Side::Client,
        };
        Ok(Some(Self { resource, tls }))
    }
}

/// Reads what a message will need: the URL, the token, and the authorities.
///
/// # Errors
/// An unusable URL or file.
pub(super) fn try_out(options: &ReportOptions) -> Result<(), Failure> {
    Prepared::new(options).map(drop)
}

/// Posts the summary of a run, if the options name a webhook.
///
/// # Errors
/// An unusable URL or an unreadable file; no answer in time, or a refusal.
pub(super) async fn post(view: &View<'_>, options: &ReportOptions) -> Result<(), Failure> {
    let Some(Prepared { resource, tls }) = Prepared::new(options)? else {
        return Ok(());
    };
    // Some services keep their secret in the path.
    let name = format!("webhook at {}", resource.location.authority());
    let body = Secret::new(reports::json::summary(view));
    let call = ServiceCall {
        method: ServiceMethod::Post,
        content_type: "application/json",
        body: &body,
        login: None,
        webhook: None,
        answer_bytes_max: REPORT_ANSWER_BYTES_MAX,
    };
    match timeout(REPORT_ANSWER_TIME, new_client(tls).call(&resource, &call)).await {
        Ok(Ok(answer)) if answer.is_success() => Ok(()),
        Ok(Ok(answer)) => Err(not_delivered(format!("{name}: status {}", answer.status))),
        Ok(Err(error)) => {
            let error = error.with_subject(resource.location.authority());
            Err(not_delivered(format!("{name}: {}", error.public())))
        }
        Err(_) => Err(not_delivered(format!(
            "{name}: no answer within {} s",
            REPORT_ANSWER_TIME.as_secs()
        ))),
    }
}

/// The place of the webhook, if the options name one. In clear text, only this machine is one.
///
/// # Errors
/// It is neither. The words leave the URL out, which may hold a secret.
pub(super) fn place(options: &ReportOptions) -> Result<Option<Location>, Failure> {
    let Some(url) = &options.webhook else { return Ok(None) };
    let location = Location::parse(url).ok().filter(|location| {
        let is_here = ["localhost", "127.0.0.1", "::1"].contains(&location.host());
        location.is_http() && (location.is_encrypted() || is_here)
    });
    match location {
        Some(location) => Ok(Some(location)),
        None => Err(Failure::invalid(
            "--webhook takes an https URL, or one of http on this machine",
        )),
    }
}
