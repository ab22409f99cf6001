//! `cleanup`: removes uploads to object storages that were begun and have not ended.

use http_wire::format_iso_date;
use remote::UnfinishedUpload;
use serde_json::json;
use types::{Error, ErrorCode, Phase};

use super::each::{Finished, complain, each_place};
use super::place::Place;
use super::session::ClientContext;
use crate::command_line::CleanupOptions;
use crate::failure::{Failure, exit_code};
use crate::output;

/// Removes what is old enough, a line for each.
pub(crate) async fn run(session: &ClientContext, options: &CleanupOptions) -> Result<u8, Failure> {
    each_place("cleanup", &options.places, async |text| {
        clean(session, options, text).await
    })
    .await
}

async fn clean(session: &ClientContext, options: &CleanupOptions, text: &str) -> Result<Finished, Failure> {
    let place = session.place(text).await?;
    let Place::Remote(location) = &place else {
        let error = Error::new(ErrorCode::PeerUnsupported, place.side(), Phase::Open);
        return Err(error
            .with_detail("only object storages have unfinished uploads")
            .with_subject(text)
            .into());
    };
    let resource = session.resource(location, place.side());
    let mut uploads = match session.client.unfinished_uploads(&resource).await {
        Err(error) if error.code() == ErrorCode::PeerUnsupported && error.peer_status().is_none() => {
            return Err(Failure::advised(&error, "cleanup is for s3:// and s3s:// URLs."));
        }
        uploads => uploads?,
    };
    let now_s = crate::token::now_s();
    let least_s = i64::try_from(options.older_than.as_secs()).unwrap_or(i64::MAX);
    let mut finished = Finished::Whole;
    while let Some(page) = uploads.next().await? {
        for upload in page {
            // Without a time it may have begun just now.
            let is_old = upload
                .begun_s
                .is_some_and(|begun_s| now_s.saturating_sub(begun_s) >= least_s);
            if !is_old {
                say(options, &upload, "KEPT");
                continue;
            }
            if options.dry_run {
                say(options, &upload, "WOULD REMOVE");
                continue;
            }
            let file = session.resource(&upload.location, place.side());
            match session.client.remove_upload(&file, &upload.id).await {
                Ok(()) => say(options, &upload, "REMOVED"),
                Err(error) => {
                    say(options, &upload, "FAILED");
                    finished = Finished::InPart(exit_code(&error));
                    complain("cleanup", error);
                }
            }
        }
    }
    Ok(finished)
}

fn say(options: &CleanupOptions, upload: &UnfinishedUpload, outcome: &str) {
    let name = upload.location.to_string();
    if options.common.json {
        output::json(&json!({"name": name, "id": upload.id, "begun_s": upload.begun_s, "outcome": outcome}));
        return;
    }
    let begun = upload.begun_s.map_or("-".to_owned(), format_iso_date);
    output::line(&format!("{}\t{begun}\t{outcome}", output::name(&name)));
}
