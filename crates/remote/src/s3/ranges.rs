//! Many small ranges of one object. S3 takes one range a request, so several requests are under way
//! at the same time.

use std::fmt;

use tokio::task::JoinSet;
use types::{ByteRange, ErrorCode, Phase, Result};

use super::client::Client;
use crate::download::FileDownload as _;
use crate::limits::S3_RANGES_AT_ONCE;
use crate::options::GetOptions;
use crate::protocol::{Boxed, Pending};
use crate::ranges::{RangeReader, check_total};
use crate::resource::{Facts, Resource};

/// Reads ranges of one object.
pub(crate) struct Ranges {
    client: Client,
    file: Resource,
    facts: Facts,
}

impl Client {
    /// Asks what an object is, to read ranges of it.
    ///
    /// # Errors
    /// The server's refusal.
    pub(crate) async fn open_ranges(&self, file: &Resource) -> Result<Ranges> {
        Ok(Ranges {
            client: self.clone(),
            file: file.clone(),
            facts: self.head(file, &[]).await?,
        })
    }
}

/// Reads one range.
async fn read_one(client: Client, file: Resource, options: GetOptions) -> Result<Vec<u8>> {
    let length = options.range.map_or(0, |range| range.len());
    let mut content = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    let mut download = client.get(&file, &options).await?;
    while let Some(batch) = download.next().await? {
        batch.append_to(&mut content);
    }
    Ok(content)
}

impl RangeReader for Ranges {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read<'a>(&'a mut self, ranges: &'a [ByteRange]) -> Pending<'a, Vec<Vec<u8>>> {
        Box::pin(async move {
            check_total(ranges, &self.file)?;
            let mut content = vec![Vec::new(); ranges.len()];
            let mut wanted = ranges.iter().enumerate().filter(|(_, range)| !range.is_empty());
            let mut running = JoinSet::new();
            loop {
                while running.len() < S3_RANGES_AT_ONCE
                    && let Some((index, range)) = wanted.next()
                {
                    let options = GetOptions {
                        range: Some(*range),
                        validator: self.facts.validator(),
                        ..GetOptions::default()
                    };
                    let reading = read_one(self.client.clone(), self.file.clone(), options);
                    running.spawn(async move { Ok((index, reading.await?)) });
                }
                let Some(read) = running.join_next().await else { break };
                let broken = |cause| {
                    self.file
                        .error(ErrorCode::Internal, Phase::Transfer)
                        .with_private(cause)
                };
                let (index, bytes) = read.map_err(broken).and_then(|read| read)?;
                content[index] = bytes;
            }
            Ok(content)
        })
    }

    /// Between two reads nothing is open.
    fn close(self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(async {})
    }
}

impl fmt::Debug for Ranges {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Ranges({})", self.file.location)
    }
}
