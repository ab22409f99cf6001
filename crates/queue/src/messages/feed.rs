//! The messages in order, made from the events of the catalog. What was written once can be read
//! as often as needed, by any process: so messages are delivered at least once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use catalog::{Catalog, FileNews, FileRecord, JobRecord, News, SettingKind, StorageSettings, Subject, VoSettings};
use schedule::FileState;
use serde_json::Value;
use types::Result;

use super::{Kind, LinkFacts, Sender, complete, link, start, state};
use crate::limits::NAMES_KEPT;

/// What messages need beside the catalog.
#[derive(Clone, Debug)]
pub struct FeedSettings {
    /// The name under which clients know the queue: FTS's `endpnt`.
    pub endpoint: String,
    /// Attempts after the first, for jobs that give no number.
    pub retries: u16,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The number of its event. One event can give two messages, of different kinds.
    pub sequence: i64,
    /// What it is about.
    pub kind: Kind,
    /// The virtual organisation; empty for what concerns all.
    pub vo: String,
    /// A JSON object.
    pub body: Arc<str>,
}

/// Messages in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Those after the given event.
    pub messages: Vec<Message>,
    /// The number of the last event that was looked at: the next batch comes after it.
    pub last: i64,
    /// Whether there may be more now.
    pub has_more: bool,
}

/// Makes messages of events. Clones share what they remember.
#[derive(Clone)]
pub struct Feed(Arc<Inner>);

struct Inner {
    catalog: Catalog,
    settings: FeedSettings,
    names: Mutex<Option<(Instant, Arc<Names>)>>,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Feed({})", self.0.settings.endpoint)
    }
}

impl Feed {
    /// Messages from this catalog.
    #[must_use]
    pub fn new(catalog: Catalog, settings: FeedSettings) -> Self {
        Self(Arc::new(Inner {
            catalog,
            settings,
            names: Mutex::default(),
        }))
    }

    /// The catalog that it reads.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// The messages of the events after one; of `limit` events at most.
    ///
    /// # Errors
    /// Those of the catalog.
    pub async fn after(&self, sequence: i64, limit: usize) -> Result<Batch> {
        let list = self.0.catalog.news_after(sequence, limit).await?;
        let mut batch = Batch {
            messages: Vec::new(),
            last: list.last,
            has_more: list.has_more,
        };
        if list.news.is_empty() {
            return Ok(batch);
        }
        let names = self.names().await?;
        for news in list.news {
            self.tell(&names, news, &mut batch.messages);
        }
        Ok(batch)
    }

    fn tell(&self, names: &Names, news: News, messages: &mut Vec<Message>) {
        let (sequence, at_ms) = (news.sequence, news.at_ms);
        let mut add = |kind, vo: &str, body: Value| {
            messages.push(Message {
                sequence,
                kind,
                vo: vo.to_owned(),
                body: body.to_string().into(),
            });
        };
        let news = match news.subject {
            Subject::File(news) => *news,
            Subject::Link(decision) => {
                // What another release has written is left out.
                if let Ok(facts) = serde_json::from_value::<LinkFacts>(decision) {
                    add(Kind::QueueState, "", link(&facts, at_ms));
                }
                return;
            }
        };
        let (file, job) = as_it_was(&news);
        let sender = names.sender(&file, &self.0.settings.endpoint);
        if news.state == FileState::Active {
            add(Kind::Start, &file.vo, start(&file, &job, &sender, at_ms));
        }
        let retries = job.options.retries.unwrap_or(self.0.settings.retries);
        if let Some(mut end) = news.ended {
            if news.state == FileState::Canceled {
                end.moved_bytes = file.moved_bytes;
                end.facts.retries_max = retries;
            }
            add(Kind::Complete, &file.vo, complete(&file, &job, &sender, &end));
        }
        add(Kind::State, &file.vo, state(&file, &job, &sender, retries, at_ms));
    }

    /// What operators say of storages and organisations, read again after [`NAMES_KEPT`].
    async fn names(&self) -> Result<Arc<Names>> {
        let known = self.0.names.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, names)) = known.filter(|(read, _)| read.elapsed() < NAMES_KEPT) {
            return Ok(names);
        }
        let names = Arc::new(Names::read(&self.0.catalog).await?);
        let mut known = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some((Instant::now(), names.clone()));
        Ok(names)
    }
}

/// The records as they were after the event.
fn as_it_was(news: &FileNews) -> (FileRecord, JobRecord) {
    let mut file = news.file.clone();
    let job = JobRecord {
        state: news.job_state,
        ..JobRecord::clone(&news.job)
    };
    if let Some(end) = &news.ended {
        let is_failure = end.problem.is_some() && news.state != FileState::Canceled;
        file.attempts = end.retry.saturating_add(u16::from(is_failure));
        if end.problem.is_some() {
            file.problem.clone_from(&end.problem);
        }
    } else if file.state != news.state {
        // The problem is of a later event.
        file.problem = None;
    }
    file.state = news.state;
    (file, job)
}

/// What operators say of storages and organisations.
struct Names {
    /// The sites of storages, by name with or without port.
    sites: BTreeMap<String, String>,
    /// Whether messages about an organisation name the user.
    shows_user: BTreeMap<String, bool>,
}

/// The name of the settings for all.
const ALL: &str = "*";

impl Names {
    async fn read(catalog: &Catalog) -> Result<Self> {
        let storages = catalog.settings::<StorageSettings>(SettingKind::Storage).await?;
        let sites = storages.into_iter().filter_map(|one| Some((one.name, one.value.site?)));
        let vos = catalog.settings::<VoSettings>(SettingKind::Vo).await?;
        let shows_user = vos
            .into_iter()
            .filter_map(|one| Some((one.name, one.value.show_user_dn?)));
        Ok(Self {
            sites: sites.collect(),
            shows_user: shows_user.collect(),
        })
    }

    fn sender<'a>(&'a self, file: &FileRecord, endpoint: &'a str) -> Sender<'a> {
        let site = |storage: &str| {
            let site = self.sites.get(storage);
            site.or_else(|| self.sites.get(super::without_port(storage)))
                .map(String::as_str)
        };
        let shows = self.shows_user.get(&file.vo).or_else(|| self.shows_user.get(ALL));
        Sender {
            endpoint,
            source_site: site(file.storages()[0]),
            destination_site: site(file.storages()[1]),
            // As FTS, where operators have not said it.
            names_user: shows.copied().unwrap_or(true),
        }
    }
}
