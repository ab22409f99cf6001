//! `df`.

use remote::Resource;
use serde_json::json;
use storage::local;
use types::{Error, ErrorCode, Phase, Side};

use super::each::{Finished, each_place};
use super::place::{Place, without_query};
use super::session::ClientContext;
use super::show::shown_size;
use crate::command_line::SpaceOptions;
use crate::failure::Failure;
use crate::output;

/// Prints the space behind each place.
pub(crate) async fn run(session: &ClientContext, options: &SpaceOptions) -> std::result::Result<u8, Failure> {
    let mut is_first = true;
    each_place("df", &options.places, async |text| {
        let place = session.place(text).await?;
        let report = SpaceReport::of(session, &place).await?;
        if std::mem::take(&mut is_first) && !options.common.json {
            output::line(&row(["Size", "Used", "Avail", "Use%"].map(str::to_owned), "Place"));
        }
        report.print(options, without_query(text));
        Ok::<_, Failure>(Finished::Whole)
    })
    .await
}

/// The space behind a place, in bytes; `None` where the server does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SpaceReport {
    total: Option<u64>,
    used: Option<u64>,
    available: Option<u64>,
    /// The largest new file.
    largest: Option<u64>,
}

impl SpaceReport {
    async fn of(session: &ClientContext, place: &Place) -> std::result::Result<Self, Failure> {
        let side = place.side();
        match place {
            Place::Remote(location) => Self::at_server(session, &session.resource(location, side)).await,
            Place::Local(path) => {
                let path = path.clone();
                let space = execution::blocking_try(side, Phase::Open, move || local::space(&path)).await;
                let space = space.map_err(|error| error.at_side(side))?;
                Ok(Self {
                    total: Some(space.total_bytes),
                    used: Some(space.used_bytes),
                    available: Some(space.free_bytes),
                    largest: None,
                })
            }
            Place::Stdio => Err(Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open).into()),
        }
    }

    async fn at_server(session: &ClientContext, resource: &Resource) -> std::result::Result<Self, Failure> {
        match session.client.space(resource).await {
            Ok(space) => Ok(Self {
                total: Some(space.quota_bytes.unwrap_or(space.total_bytes)),
                used: Some(space.used_bytes),
                available: Some(space.free_bytes),
                largest: Some(space.largest_free_bytes),
            }),
            Err(error) if error.code() == ErrorCode::PeerUnsupported && error.peer_status().is_none() => {
                Self::by_properties(session, resource).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What RFC 4331 calls the quota of a directory.
    async fn by_properties(session: &ClientContext, resource: &Resource) -> std::result::Result<Self, Failure> {
        let mut found = session.client.stat(resource).await?;
        if let (false, Some(directory)) = (found.is_directory, resource.parent()) {
            found = session.client.stat(&directory).await?;
        }
        let (used, available) = (found.quota_used_bytes, found.quota_available_bytes);
        if used.is_none() && available.is_none() {
            let error = Error::new(ErrorCode::PeerUnsupported, resource.side, Phase::Open);
            if resource.location.is_s3() {
                let error = error
                    .with_detail("S3 does not report space")
                    .with_subject(&resource.location);
                return Err(Failure::advised(&error, "crossload du adds up the sizes of objects."));
            }
            let error = error.with_detail("its space is unknown: the server reports no quota (RFC 4331)");
            let error = error.with_subject(&resource.location);
            return Err(Failure::advised(&error, "Ask by a root URL, if the server has one."));
        }
        Ok(Self {
            total: used
                .zip(available)
                .map(|(used, available)| used.saturating_add(available)),
            used,
            available,
            largest: None,
        })
    }

    fn print(&self, options: &SpaceOptions, text: &str) {
        let Self {
            total,
            used,
            available,
            largest,
        } = *self;
        if options.common.json {
            output::json(&json!({"name": text, "total_bytes": total, "used_bytes": used,
                "available_bytes": available, "largest_bytes": largest}));
            return;
        }
        let size = |bytes| shown_size(bytes, options.human_readable);
        let share = used.zip(total).filter(|(_, total)| *total > 0);
        let share = share.map_or("-".to_owned(), |(used, total)| {
            format!("{:.0}%", 100.0 * used as f64 / total as f64)
        });
        output::line(&row(
            [size(total), size(used), size(available), share],
            &output::name(text),
        ));
    }
}

fn row([total, used, available, share]: [String; 4], place: &str) -> String {
    format!("{total:>15} {used:>15} {available:>15} {share:>4}  {place}")
}
