//! The catalog over each database: one suite for all.

mod changes;
mod faults;
mod hops;
mod jobs;
mod keep;
mod large;
mod life;
mod news;
mod pages;
mod place;
mod postgres;
mod random;
mod sql;
mod sweeps;
mod tape;
