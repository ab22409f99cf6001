//! Our own API, over TLS as clients use it.

mod cloud;
mod document;
mod events;
mod fts;
mod jobs;
mod operate;
mod place;
mod queue;
mod rights;
mod routes;
mod webhooks;
