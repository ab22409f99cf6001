//! Both APIs, over TLS as clients use them.

mod cloud;
mod document;
mod events;
mod fts;
mod fts_jobs;
mod jobs;
mod operate;
mod place;
mod queue;
mod recorded;
mod rights;
mod routes;
mod webhooks;
