//! A file on another server, as a source.

use remote::{Client, GetOptions, Opened, Resource};
use storage::Answer;
use types::{Checksum, ChecksumAlgorithm, Error, ErrorCode, Location};

use super::source::{Incoming, Source, SourceAbilities, SourceFacts};

/// A file on another server.
pub struct RemoteSource {
    client: Client,
    file: Resource,
    digests_from: Option<Resource>,
}

impl RemoteSource {
    /// A file that `client` reads.
    #[must_use]
    pub fn new(client: &Client, file: &Resource) -> Self {
        Self {
            client: client.clone(),
            file: file.clone(),
            digests_from: None,
        }
    }

    /// The same, with checksums requested from `other` if the file itself must not be asked first.
    #[must_use]
    pub fn with_digests_from(self, other: Option<Resource>) -> Self {
        Self {
            digests_from: other,
            ..self
        }
    }
}

/// Why a source cannot be read: the refusal of HEAD, unless the failure of GET has a better reason.
/// XRootD answers HEAD with 500 if it cannot compute the requested checksum.
#[must_use]
pub fn refusal_or(refused: Option<Error>, failure: Error) -> Error {
    match refused {
        Some(refused) if failure.code() == ErrorCode::PeerFailed => refused,
        _ => failure,
    }
}

impl Source for RemoteSource {
    fn abilities(&self) -> SourceAbilities {
        let abilities = self.client.abilities(&self.file.location);
        SourceAbilities {
            is_encrypted: abilities.is_encrypted,
            opens_once: abilities.opens_once,
            prefers_checksum_first: abilities.prefers_checksum_first,
            has_no_checksum: false,
        }
    }

    fn ask<'a>(&'a self, wanted: &'a [ChecksumAlgorithm]) -> Answer<'a, SourceFacts> {
        Box::pin(async { Ok((&self.client.head(&self.file, wanted).await?).into()) })
    }

    fn may_be_read_after(&self, refusal: &Error) -> bool {
        self.client.abilities(&self.file.location).may_read_after(refusal)
    }

    fn checksums<'a>(&'a self, wanted: &'a [ChecksumAlgorithm], was_asked: bool) -> Answer<'a, Vec<Checksum>> {
        let whom = if was_asked {
            Some(&self.file)
        } else {
            self.digests_from.as_ref()
        };
        Box::pin(async move {
            match whom {
                Some(whom) if self.client.abilities(&whom.location).allows_one_method => Ok(Vec::new()),
                Some(whom) => Ok(self.client.head(whom, wanted).await?.checksums),
                None => Ok(Vec::new()),
            }
        })
    }

    fn read<'a>(&'a self, options: &'a GetOptions) -> Answer<'a, Box<dyn Incoming>> {
        Box::pin(async { Ok(Box::new(self.client.get(&self.file, options).await?) as Box<dyn Incoming>) })
    }

    fn open_once(&self) -> Answer<'_, Opened> {
        Box::pin(self.client.open(&self.file))
    }

    fn location(&self) -> Option<&Location> {
        Some(&self.file.location)
    }
}
