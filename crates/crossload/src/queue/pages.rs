//! Lists of our own API, in pages.

use catalog::{Catalog, JobFilter, JobSummary, Page};
use door_queue::queue::{Filter, Scope};
use queue::Service;
use schedule::{JobId, JobState};
use serde_json::Value;
use types::Result;

use super::desk::{is_of_others, token_delegation};
use super::why;

/// A page of jobs that the filter's scope includes. It may be short, and still have a next one.
pub(super) async fn jobs(
    catalog: &Catalog,
    states: Vec<JobState>,
    filter: &Filter,
    before: Option<i64>,
) -> Result<Page<JobSummary>> {
    let own = match &filter.scope {
        Scope::Own(owner) => Some(owner.user.clone()),
        Scope::Vo(_) | Scope::All => None,
    };
    let vo = match &filter.scope {
        Scope::Vo(owner) => Some(owner.vo.clone()),
        Scope::Own(_) | Scope::All => None,
    };
    if is_of_others(filter) {
        return Ok(Page {
            items: Vec::new(),
            next: None,
        });
    }
    let jobs = JobFilter {
        user: own.or_else(|| filter.user.clone()),
        delegation_id: token_delegation(&filter.scope),
        vo: vo.or_else(|| filter.vo.clone()),
        states,
        source_storage: filter.source_storage.clone(),
        destination_storage: filter.destination_storage.clone(),
        since_ms: filter.ended_since_ms,
        limit: filter.limit,
    };
    let mut page = catalog.page_jobs(&jobs, before).await?;
    page.items.retain(|job| filter.scope.includes(&job.record.owner));
    Ok(page)
}

/// Why the files of a job wait: a page of those that have not ended, or of all.
pub(super) async fn why_job(service: &Service, job: JobId, after: Option<i64>, limit: usize) -> Result<Page<Value>> {
    let catalog = service.catalog();
    let has_ended = catalog.job(job).await?.is_none_or(|job| job.state.is_terminal());
    let mut files = catalog.page_files(job, after, limit).await?;
    files.items.retain(|file| has_ended || !file.state.is_terminal());
    let whys = service.why_files(files.items).await?;
    let items = whys.into_iter().map(why::as_json).collect::<Result<Vec<Value>>>()?;
    Ok(Page {
        items,
        next: files.next,
    })
}
