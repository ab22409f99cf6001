//! `touch` and `chmod`.

use remote::PutOptions;
use storage::local;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::each::{Work, each_changed};
use super::place::Place;
use super::session::{ClientContext, is_taken};
use crate::command_line::{ModeOptions, TouchOptions};
use crate::failure::Failure;

/// `touch`.
pub(crate) async fn touch(session: &ClientContext, options: &TouchOptions) -> std::result::Result<u8, Failure> {
    let work = Work {
        places: &options.places,
        is_json: options.common.json,
        done: "TOUCHED",
    };
    each_changed("touch", work, async |text| -> std::result::Result<(), Failure> {
        let place = session.place(text).await?;
        let side = place.side();
        match &place {
            Place::Remote(_) => create(session, &place).await,
            Place::Local(path) => {
                let path = path.clone();
                let touched = execution::blocking_try(side, Phase::Open, move || local::touch(&path)).await;
                Ok(touched.map_err(|error| error.at_side(side))?)
            }
            Place::Stdio => Err(no_file().into()),
        }
    })
    .await
}

/// Creates an empty file on a server.
async fn create(session: &ClientContext, place: &Place) -> std::result::Result<(), Failure> {
    let Place::Remote(location) = place else {
        return Err(no_file().into());
    };
    let file = session.resource(location, place.side());
    let empty = PutOptions {
        size_bytes: Some(0),
        ..PutOptions::default()
    };
    let created = async { session.client.put(&file, &empty).await?.finish().await };
    match created.await {
        Ok(_) => Ok(()),
        Err(error) if is_taken(&error) => {
            let kept = Error::new(ErrorCode::PeerUnsupported, file.side, Phase::Open).with_subject(location);
            let kept = kept.with_detail("the file exists, and servers set the time of the last change themselves");
            Err(Failure::advised(&kept, "Do nothing if the file only has to exist."))
        }
        Err(error) => Err(error.into()),
    }
}

/// `chmod`.
pub(crate) async fn change_mode(session: &ClientContext, options: &ModeOptions) -> std::result::Result<u8, Failure> {
    let mode = options.mode;
    let work = Work {
        places: &options.places,
        is_json: options.common.json,
        done: "CHANGED",
    };
    each_changed("chmod", work, async |text| -> Result<()> {
        set_mode(session, &session.place(text).await?, mode).await
    })
    .await
}

/// Sets the permission bits of a file or directory.
///
/// # Errors
/// The server's or the system's refusal, or `not_implemented` for a protocol without permissions.
pub(super) async fn set_mode(session: &ClientContext, place: &Place, mode: u16) -> Result<()> {
    let side = place.side();
    match place {
        Place::Remote(location) => session.client.set_mode(&session.resource(location, side), mode).await,
        Place::Local(path) => {
            let path = path.clone();
            let changed = execution::blocking_try(side, Phase::Open, move || local::set_mode(&path, mode)).await;
            changed.map_err(|error| error.at_side(side))
        }
        Place::Stdio => Err(no_file()),
    }
}

fn no_file() -> Error {
    Error::new(ErrorCode::NotImplemented, Side::Client, Phase::Open).with_detail("standard input is no file")
}
