//! Limits to which a new job is adjusted instead of being refused: FTS takes it as it is.

use std::collections::{BTreeSet, HashSet};

use catalog::NewJob;
use types::Result;

use super::Service;
use super::outlook::DEFAULT_ACTIVITY;
use crate::limits::{COUNTERS_AGE, RETRIES_MAX, VO_ACTIVITIES_MAX};

impl Service {
    /// Adjusts a job to the limits on retries and activities. Returns a sentence about each change.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn adjust(&self, job: &mut NewJob) -> Result<Vec<String>> {
        let counters = self.0.counters(COUNTERS_AGE).await?;
        let of_vo = counters.with_links().filter(|(_, count)| count.key.vo == job.owner.vo);
        let used = of_vo.map(|(_, count)| count.key.activity.clone()).collect();
        let named = self.0.outlook().named_activities(&job.owner.vo);
        let notes = [limit_retries(job), limit_activities(job, used, named)];
        Ok(notes.into_iter().flatten().collect())
    }
}

fn limit_retries(job: &mut NewJob) -> Option<String> {
    let asked = job
        .options
        .retries
        .filter(|retries| u32::from(*retries) > RETRIES_MAX)?;
    job.options.retries = u16::try_from(RETRIES_MAX).ok();
    Some(format!("a file has at most {RETRIES_MAX} retries, not {asked}"))
}

/// Activities beyond [`VO_ACTIVITIES_MAX`] become [`DEFAULT_ACTIVITY`], whose share they have
/// anyway. Those that are used already stay, and those with a share of their own always do.
fn limit_activities(job: &mut NewJob, mut used: HashSet<String>, named: BTreeSet<String>) -> Option<String> {
    used.retain(|activity| activity != DEFAULT_ACTIVITY && !named.contains(activity));
    let mut changed = 0_usize;
    for file in &mut job.files {
        let activity = &mut file.activity;
        if activity == DEFAULT_ACTIVITY || named.contains(activity) || used.contains(activity) {
            continue;
        }
        if used.len() < VO_ACTIVITIES_MAX {
            used.insert(activity.clone());
            continue;
        }
        DEFAULT_ACTIVITY.clone_into(activity);
        changed += 1;
    }
    (changed > 0).then(|| {
        format!(
            "{changed} files have the activity {DEFAULT_ACTIVITY}: the organisation may have files of \
             {VO_ACTIVITIES_MAX} activities without a share of their own"
        )
    })
}

#[cfg(test)]
mod tests {
    use catalog::{FileOptions, JobOptions, Login, NewFile, Owner};
    use schedule::{FileState, JobId, JobKind};

    use super::*;

    fn job(activities: impl Iterator<Item = String>) -> NewJob {
        let file = |activity| NewFile {
            index: 0,
            source: String::new(),
            destination: String::new(),
            source_storage: String::new(),
            destination_storage: String::new(),
            state: FileState::Submitted,
            size_bytes: None,
            activity,
            options: FileOptions::default(),
        };
        NewJob {
            id: JobId([1; 16]),
            kind: JobKind::Normal,
            owner: Owner {
                user: String::new(),
                delegation_id: String::new(),
                vo: String::new(),
                login: Login::Anonymous,
            },
            submitted_ms: 0,
            priority: 3,
            expires_ms: None,
            options: JobOptions::default(),
            metadata: None,
            files: activities.map(file).collect(),
        }
    }

    #[test]
    fn activities_beyond_the_limit_are_one() {
        let used: HashSet<String> = ["Production", DEFAULT_ACTIVITY].map(str::to_owned).into();
        let named = BTreeSet::from(["Express".to_owned()]);
        let made_up = (0..VO_ACTIVITIES_MAX).map(|number| format!("made up {number}"));
        let known = ["Express", "Production", DEFAULT_ACTIVITY].map(str::to_owned);
        let mut new = job(made_up.chain(known));
        let note = limit_activities(&mut new, used.clone(), named.clone()).unwrap();
        assert!(note.starts_with("1 files have the activity default"), "{note}");
        let activities: Vec<&str> = new.files.iter().map(|file| &*file.activity).collect();
        let last = format!("made up {}", VO_ACTIVITIES_MAX - 2);
        let end = [&*last, "default", "Express", "Production", "default"];
        assert_eq!(activities[VO_ACTIVITIES_MAX - 2..], end);

        // What the first job has used is there for the next one.
        let used = new.files.iter().map(|file| file.activity.clone()).collect();
        let mut next = job(["made up 0", "Express", "new"].map(str::to_owned).into_iter());
        limit_activities(&mut next, used, named).unwrap();
        let activities: Vec<&str> = next.files.iter().map(|file| &*file.activity).collect();
        assert_eq!(activities, ["made up 0", "Express", "default"]);
    }

    #[test]
    fn retries_beyond_the_limit_are_told() {
        let mut new = job(std::iter::empty());
        new.options.retries = Some(100);
        assert_eq!(limit_retries(&mut new), None);
        new.options.retries = Some(u16::MAX);
        let note = limit_retries(&mut new).unwrap();
        assert_eq!(note, "a file has at most 100 retries, not 65535");
        assert_eq!(new.options.retries, Some(100));
    }
}
