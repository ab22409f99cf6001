//! The catalog over each database: one suite for all.

mod jobs;
mod life;
mod place;
