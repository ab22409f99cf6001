//! Our own API, over TLS as clients use it.

mod jobs;
mod place;
mod queue;
