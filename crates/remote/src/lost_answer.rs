//! Changes of names whose answer was lost: what has which name afterwards tells whether the server
//! has made them. One that it has not made is asked for once more.

use tokio::time::sleep;
use types::{ErrorCode, Location, Result};

use crate::client::Client;
use crate::limits::LOST_ANSWER_PAUSES;
use crate::resource::Resource;

/// What is known after an answer was lost.
enum Outcome {
    Made,
    NotMade,
    Unknown,
}

fn is_lost<T>(answer: &Result<T>) -> bool {
    answer
        .as_ref()
        .is_err_and(|error| error.code() == ErrorCode::OutcomeUnknown)
}

impl Client {
    /// Renames a file or directory within its server. After a lost answer the names tell the
    /// outcome.
    ///
    /// # Errors
    /// `peer_exists` when the new name is taken and may not be replaced, or another refusal;
    /// `outcome_unknown` if the server does not answer again.
    pub async fn rename(&self, file: &Resource, destination: &Location, overwrite: bool) -> Result<()> {
        let protocol = self.protocol(file)?;
        let renamed = protocol.rename(file, destination, overwrite).await;
        // Objects are copied and removed.
        if !is_lost(&renamed) || file.location.is_s3() {
            return renamed;
        }
        match self.outcome_of_rename(file, destination).await {
            Outcome::Made => Ok(()),
            Outcome::Unknown => renamed,
            Outcome::NotMade => match protocol.rename(file, destination, overwrite).await {
                // The first request may have succeeded meanwhile.
                Err(error) => match self.outcome_of_rename(file, destination).await {
                    Outcome::Made => Ok(()),
                    Outcome::NotMade | Outcome::Unknown => Err(error),
                },
                Ok(()) => Ok(()),
            },
        }
    }

    async fn outcome_of_rename(&self, file: &Resource, destination: &Location) -> Outcome {
        let target = Resource {
            location: destination.clone(),
            ..file.clone()
        };
        let mut pauses = LOST_ANSWER_PAUSES.iter();
        loop {
            return match (self.has(file).await, self.has(&target).await) {
                (Some(true), _) => Outcome::NotMade,
                (Some(false), Some(true)) => Outcome::Made,
                (Some(false), Some(false)) => Outcome::Unknown,
                // The server may be starting again.
                _ => match pauses.next() {
                    Some(pause) => {
                        sleep(*pause).await;
                        continue;
                    }
                    None => Outcome::Unknown,
                },
            };
        }
    }

    /// Whether a name exists; `None` if the server does not say so.
    async fn has(&self, file: &Resource) -> Option<bool> {
        match self.stat(file).await {
            Ok(_) => Some(true),
            Err(error) if error.code() == ErrorCode::PeerNotFound => Some(false),
            Err(_) => None,
        }
    }

    /// The answer to a removal, or what takes its place: `again` is asked where the name is still
    /// there.
    pub(crate) async fn removed(
        &self,
        file: &Resource,
        answer: Result<()>,
        again: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        if !is_lost(&answer) || file.location.is_s3() {
            return answer;
        }
        match self.has(file).await {
            Some(false) => Ok(()),
            None => answer,
            Some(true) => match again.await {
                Err(error) if error.code() == ErrorCode::PeerNotFound => Ok(()),
                again => again,
            },
        }
    }

    /// The answer to the creation of a directory, or what takes its place.
    pub(crate) async fn made(&self, directory: &Resource, answer: Result<()>) -> Result<()> {
        if !is_lost(&answer) {
            return answer;
        }
        match self.stat(directory).await {
            Ok(found) if found.is_directory => Ok(()),
            _ => answer,
        }
    }
}
