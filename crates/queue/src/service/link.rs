//! Links of records. A storage has one name there, whatever the scheme in its URLs.

use catalog::{FileRecord, QueueKey};
use schedule::optimizer::Link;
use schedule::storage::canonical;

/// The link between two storages.
pub(super) fn between(source: &str, destination: &str) -> Link {
    Link {
        source: canonical(source).into_owned(),
        destination: canonical(destination).into_owned(),
    }
}

/// The link of a queue.
pub(super) fn of_queue(key: &QueueKey) -> Link {
    between(&key.source, &key.destination)
}

/// The link of a file.
pub(super) fn of_file(file: &FileRecord) -> Link {
    between(&file.source_storage, &file.destination_storage)
}
