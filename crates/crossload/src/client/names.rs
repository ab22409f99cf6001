//! `mkdir`, `mv` and `cat`.

use remote::GetOptions;
use storage::{Hasher, Overwrite};
use tokio::io::AsyncWriteExt as _;
use transfer::{Progress, write_to};
use types::{Error, ErrorCode, Phase, Side};

use super::local::fault;
use super::place::Place;
use super::session::Session;
use crate::command_line::{CatOptions, MakeDirectoryOptions, RenameOptions};
use crate::failure::Failure;

/// `mkdir`.
pub(crate) async fn make_directories(session: &Session, options: &MakeDirectoryOptions) -> Result<u8, Failure> {
    for text in &options.places {
        session.make_directory(&Place::parse(text)?, options.parents).await?;
    }
    Ok(0)
}

/// `mv`.
pub(crate) async fn rename(session: &Session, options: &RenameOptions) -> Result<u8, Failure> {
    match (
        Place::parse_name(&options.source)?,
        Place::parse_name(&options.destination)?,
    ) {
        (Place::Remote(source), Place::Remote(destination)) => {
            let resource = session.resource(&source, Side::Source);
            session.client.rename(&resource, &destination, options.force).await?;
        }
        (Place::Local(source), Place::Local(destination)) => {
            let overwrite = if options.force {
                Overwrite::Allow
            } else {
                Overwrite::Refuse
            };
            session.files.rename(&source, &destination, overwrite).await?;
        }
        _ => {
            let error = Error::new(ErrorCode::CrossExport, Side::Client, Phase::Open);
            return Err(error.with_detail("use copy and rm between different places").into());
        }
    }
    Ok(0)
}

/// `cat`.
pub(crate) async fn cat(session: &Session, options: &CatOptions) -> Result<u8, Failure> {
    let mut out = tokio::io::stdout();
    for text in &options.places {
        match Place::parse(text)? {
            Place::Remote(location) => {
                let resource = session.resource(&location, Side::Source);
                let mut download = session.client.get(&resource, &GetOptions::default()).await?;
                write_to(&mut download, &mut out, &mut Hasher::new(&[]), &Progress::new()).await?;
            }
            Place::Local(path) => {
                let failed = |cause: std::io::Error| fault(&cause, Phase::Open, &path).at_side(Side::Source);
                let mut file = tokio::fs::File::open(path.as_str()).await.map_err(failed)?;
                tokio::io::copy(&mut file, &mut out).await.map_err(failed)?;
            }
            Place::Stdio => {
                let copied = tokio::io::copy(&mut tokio::io::stdin(), &mut out).await;
                copied.map_err(|cause| Failure::system("standard input", &cause))?;
            }
        }
    }
    out.flush()
        .await
        .map_err(|cause| Failure::system("standard output", &cause))?;
    Ok(0)
}
