//! Our own API, over TLS as clients use it.

mod document;
mod events;
mod fts;
mod jobs;
mod operate;
mod place;
mod queue;
