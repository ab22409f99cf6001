//! Room for further links: each link with files costs memory and time of every decision, also one
//! whose storages are never there.

use std::collections::HashSet;

use catalog::NewJob;
use schedule::optimizer::Link;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::{Service, link};
use crate::limits::{COUNTERS_AGE, JOB_LINKS_MAX, VO_LINKS_MAX};

impl Service {
    /// Checks that a job has not too many links, nor its virtual organisation with it.
    ///
    /// # Errors
    /// `bad_request` for a job with more than [`JOB_LINKS_MAX`] links; `share_used_up` if the
    /// organisation would have files on more than [`VO_LINKS_MAX`]; those of the catalog.
    pub async fn check_links(&self, job: &NewJob) -> Result<()> {
        let files = job.files.iter();
        let own: HashSet<Link> = files
            .map(|file| link::between(&file.source_storage, &file.destination_storage))
            .collect();
        if own.len() > JOB_LINKS_MAX {
            let words = format!("the job has {} links, a job may have {JOB_LINKS_MAX}", own.len());
            return Err(refusal(ErrorCode::BadRequest, words));
        }
        let counters = self.0.counters(COUNTERS_AGE).await?;
        let counted = counters.with_links().filter(|(_, count)| count.key.vo == job.owner.vo);
        let mut live: HashSet<&Link> = counted.map(|(link, _)| link).collect();
        let before = live.len();
        live.extend(&own);
        // A job without a new link makes nothing worse.
        match live.len() <= VO_LINKS_MAX || live.len() == before {
            true => Ok(()),
            false => {
                let words = format!("the organisation has files on {before} links, it may have {VO_LINKS_MAX}");
                Err(refusal(ErrorCode::ShareUsedUp, words))
            }
        }
    }
}

fn refusal(code: ErrorCode, words: String) -> Error {
    Error::new(code, Side::Client, Phase::Open).with_detail(words)
}
