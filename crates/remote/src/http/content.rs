//! Whether a server sends the file itself, and neither a directory listing nor encoded content.

use types::{ErrorCode, Phase, Result};

use super::answer::Answer;
use super::client::Client;
use crate::resource::Resource;

/// What is known of a file before its content is requested.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    /// A HEAD has said that it is a file.
    pub(super) is_asked: bool,
    /// The size in that answer.
    pub(super) size_bytes: Option<u64>,
}

impl Client {
    /// Returns the answer unless it is about a directory. `asked` is the requested file.
    ///
    /// # Errors
    /// `is_directory` for a listing, and where a WebDAV server refuses to read a directory;
    /// `peer_misbehaved` for a content coding, since we never request one.
    pub(super) async fn check_content(&self, answer: Answer, asked: &Resource, known: Known) -> Result<Answer> {
        if !answer.is_success() {
            let may_be_directory = matches!(answer.head.status, 405 | 409);
            if may_be_directory && Box::pin(self.is_collection(&answer.file)).await {
                return Err(is_directory(&answer));
            }
            return Ok(answer);
        }
        if let Some(coding) = answer.head.content_coding() {
            let words = format!("the content is encoded ({coding}) although the file was asked for as it is");
            return Err(answer.misbehaved(words));
        }
        if answer.head.is_listing() || gained_slash(&answer, asked) {
            return Err(is_directory(&answer));
        }
        let is_page = answer.head.is_html();
        if is_page && answer.file.location.path().ends_with('/') {
            return Err(is_directory(&answer));
        }
        if (is_page || may_be_xrootds_listing(&answer, known)) && Box::pin(self.is_collection(&answer.file)).await {
            return Err(is_directory(&answer));
        }
        Ok(answer)
    }

    /// Whether a WebDAV server says that it is a directory. Other answers count as no. A signed URL
    /// is of a file.
    async fn is_collection(&self, file: &Resource) -> bool {
        file.signature().is_none() && self.properties(file).await.is_ok_and(|entry| entry.is_directory)
    }
}

/// XRootD does not mark its listings. The HEAD of a directory gives another size than its listing
/// has, or none.
fn may_be_xrootds_listing(answer: &Answer, known: Known) -> bool {
    let is_other_size = known.size_bytes.is_some() && answer.head.content_length() != known.size_bytes;
    answer.head.status == 200 && answer.head.is_from_xrootd() && (!known.is_asked || is_other_size)
}

/// Plain servers (nginx, Apache) redirect from a directory to the same name with a slash at its
/// end.
fn gained_slash(answer: &Answer, asked: &Resource) -> bool {
    let path = answer.file.location.path();
    path.strip_suffix('/').is_some_and(|path| path == asked.location.path())
}

fn is_directory(answer: &Answer) -> types::Error {
    answer.file.error(ErrorCode::IsDirectory, Phase::Open)
}
