//! Room for further links: each link with files costs memory and time of every decision, also one
//! whose storages are never there.

use std::collections::HashSet;

use catalog::{NewJob, Owner};
use schedule::optimizer::Link;
use types::{Error, ErrorCode, Phase, Result, Side};

use super::counters::Counters;
use super::{Service, link};
use crate::limits::{COUNTERS_AGE, JOB_LINKS_MAX, USER_LINKS_MIN, VO_LINKS_MAX, VO_QUEUES_MAX};

impl Service {
    /// Checks that a job has not too many links, nor its user or virtual organisation with it.
    ///
    /// # Errors
    /// `bad_request` for a job with more than [`JOB_LINKS_MAX`] links; `share_used_up` if the
    /// organisation would have files on more than [`VO_LINKS_MAX`] or in more than
    /// [`VO_QUEUES_MAX`] queues, or its user on more than are left and on more than
    /// [`USER_LINKS_MIN`]; those of the catalog.
    pub async fn check_links(&self, job: &NewJob) -> Result<()> {
        let asked = Asked::of(job);
        let links: HashSet<&Link> = asked.iter().map(|asked| &asked.link).collect();
        if links.len() > JOB_LINKS_MAX {
            let words = format!("the job has {} links, a job may have {JOB_LINKS_MAX}", links.len());
            return Err(refusal(ErrorCode::BadRequest, words));
        }
        let counters = self.0.counters(COUNTERS_AGE).await?;
        check(&counters, &job.owner, &asked, &links).map_err(|words| refusal(ErrorCode::ShareUsedUp, words))
    }
}

/// A queue that a job has files for.
#[derive(PartialEq, Eq, Hash)]
struct Asked<'a> {
    link: Link,
    activity: &'a str,
}

impl<'a> Asked<'a> {
    fn of(job: &'a NewJob) -> HashSet<Self> {
        let files = job.files.iter();
        files
            .map(|file| Self {
                link: link::between(&file.source_storage, &file.destination_storage),
                activity: &file.activity,
            })
            .collect()
    }
}

/// Checks what there is already. A job without a new link, or a new queue, makes nothing worse.
fn check(
    counters: &Counters,
    owner: &Owner,
    asked: &HashSet<Asked<'_>>,
    links: &HashSet<&Link>,
) -> std::result::Result<(), String> {
    let user = owner.unique_name();
    let (mut of_vo, mut of_user) = (HashSet::new(), HashSet::new());
    let (mut queues, mut known) = (0, HashSet::new());
    for (link, count) in counters.with_links().filter(|(_, count)| count.key.vo == owner.vo) {
        queues += 1;
        of_vo.insert(link);
        if count.key.user == user {
            of_user.insert(link);
            known.insert((link, count.key.activity.as_str()));
        }
    }
    let fresh = asked
        .iter()
        .filter(|asked| !known.contains(&(&asked.link, asked.activity)));
    let fresh = fresh.count();
    if fresh > 0 && queues + fresh > VO_QUEUES_MAX {
        return Err(format!(
            "the organisation has files in {queues} queues (of a link, an activity, a user and a priority), it may \
             have {VO_QUEUES_MAX}"
        ));
    }
    let (of_vo_before, of_user_before) = (of_vo.len(), of_user.len());
    of_vo.extend(links);
    of_user.extend(links);
    if of_vo.len() > VO_LINKS_MAX && of_vo.len() > of_vo_before {
        return Err(format!(
            "the organisation has files on {of_vo_before} links, it may have {VO_LINKS_MAX}"
        ));
    }
    let left = VO_LINKS_MAX.saturating_sub(of_vo.len());
    if of_user.len() > left.max(USER_LINKS_MIN) && of_user.len() > of_user_before {
        return Err(format!(
            "you have files on {of_user_before} links; one user may have as many as are left to the others of the \
             organisation, of {VO_LINKS_MAX} in all"
        ));
    }
    Ok(())
}

fn refusal(code: ErrorCode, words: String) -> Error {
    Error::new(code, Side::Client, Phase::Open).with_detail(words)
}

#[cfg(test)]
mod tests {
    use catalog::{Login, QueueCount, QueueKey};

    use super::*;

    fn owner(user: &str) -> Owner {
        Owner {
            user: user.to_owned(),
            delegation_id: String::new(),
            vo: "atlas".to_owned(),
            login: Login::Certificate,
        }
    }

    fn link_of(number: usize) -> Link {
        link::between("davs://a:443", &format!("davs://b{number}:443"))
    }

    /// Files of users on these links each.
    fn counters(users: &[(&str, std::ops::Range<usize>)]) -> Counters {
        let of_user = |(user, links): &(&str, std::ops::Range<usize>)| {
            let user = (*user).to_owned();
            links.clone().map(move |number| {
                let link = link_of(number);
                QueueCount {
                    key: QueueKey {
                        source: link.source,
                        destination: link.destination,
                        vo: "atlas".to_owned(),
                        activity: "default".to_owned(),
                        user: user.clone(),
                    },
                    priority: 3,
                    waiting: 1,
                    delayed: 0,
                    held: 0,
                    active: 0,
                    oldest_ms: None,
                }
            })
        };
        Counters::of(users.iter().flat_map(of_user).collect())
    }

    fn asks(counters: &Counters, user: &str, numbers: std::ops::Range<usize>) -> std::result::Result<(), String> {
        let asked = numbers.map(|number| Asked {
            link: link_of(number),
            activity: "default",
        });
        let asked: HashSet<Asked<'_>> = asked.collect();
        let links = asked.iter().map(|asked| &asked.link).collect();
        check(counters, &owner(user), &asked, &links)
    }

    #[test]
    fn one_user_leaves_as_many_links_to_the_others_as_he_has() {
        let half = VO_LINKS_MAX / 2;
        let one = counters(&[("jane", 0..half)]);
        asks(&one, "jane", 0..half).unwrap();
        let refused = asks(&one, "jane", half..half + 1).unwrap_err();
        assert!(
            refused.starts_with(&format!("you have files on {half} links")),
            "{refused}"
        );
        // Half of the rest is there for the next one.
        asks(&one, "john", half..half + half / 2).unwrap();
        assert!(asks(&one, "john", half..half + half / 2 + 1).is_err());
        // A link that others have as well takes none away from them.
        asks(&one, "john", 0..half).unwrap();
    }

    #[test]
    fn a_few_links_are_there_for_each_until_the_organisation_has_all() {
        let few = USER_LINKS_MIN;
        let full = counters(&[("jane", 0..VO_LINKS_MAX - few)]);
        let new = VO_LINKS_MAX - few;
        asks(&full, "john", new..new + few).unwrap();
        assert!(asks(&full, "john", new - 1..new + few).is_err());
        let all = counters(&[("jane", 0..VO_LINKS_MAX)]);
        let refused = asks(&all, "john", VO_LINKS_MAX..VO_LINKS_MAX + 1).unwrap_err();
        assert!(refused.starts_with("the organisation has files on"), "{refused}");
    }

    #[test]
    fn users_and_activities_multiply_links_up_to_a_limit() {
        let users: Vec<String> = (0..VO_QUEUES_MAX / 1000).map(|user| format!("user{user}")).collect();
        let users: Vec<_> = users.iter().map(|user| (user.as_str(), 0..1000)).collect();
        let all = counters(&users);
        asks(&all, "user1", 0..1000).unwrap();
        let refused = asks(&all, "jane", 0..1).unwrap_err();
        assert!(refused.contains("queues"), "{refused}");
    }
}
