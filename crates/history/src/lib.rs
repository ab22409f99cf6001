//! What runs of the instruments found: the results of `smoke`, `mesh`, `stress` and `bench` as one
//! model, whatever was run, so that they are compared, shown and kept in one way.
//!
//! [`Run`] is the model.
#![forbid(unsafe_code)]

mod model;

pub use model::{
    Cell, CountedFailure, Downtime, EndpointSeen, Failure, Figure, Instrument, Link, Mode, Outcome, RatePoint, Run,
    Step, Wish,
};
