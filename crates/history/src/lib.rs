//! What runs of the instruments found: the results of `smoke`, `mesh`, `stress` and `bench` as one
//! model, whatever was run, so that they are compared, shown and kept in one way.
//!
//! [`Run`] is the model. [`Blame`] tells who is at fault for what failed in a run, [`standings`]
//! how endpoints stand over many, and [`check`] what has changed. [`Store`] keeps them.
#![forbid(unsafe_code)]

mod blame;
mod change;
mod check;
mod comparison;
#[cfg(test)]
mod made_up;
mod model;
mod standing;
mod store;
mod times;

pub use blame::{Blame, Finding, Role, Scope, Slowness, Subject, Symptom, Verdict};
pub use change::{Change, LEVEL, Threshold, change};
pub use check::{Shift, Thresholds, Watched, check};
pub use comparison::{Broken, Comparison, FigureChange};
pub use model::{
    Cell, CountedFailure, Downtime, EndpointSeen, Failure, Figure, Instrument, Link, Mode, Outcome, RatePoint, Run,
    Step, Wish,
};
pub use standing::{
    Condition, Counts, EndpointVerdict, Hysteresis, Ongoing, RunVerdict, Standing, State, ongoing, standings,
};
pub use store::{
    Detail, FigurePoint, FigureSeries, Filter, Keep, LinkDay, LinkRun, LinkSeries, Past, RunId, Store, StoreError,
    Summary,
};
pub use times::minute;
