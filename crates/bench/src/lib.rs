//! The measured tables: loads that are put on any endpoint, and what is said of how it bore them.
//!
//! A load (`load`) is a function that is given a [`Ground`]: whom to measure, clients to do it
//! with, how to tell of progress, and whether to stop. It returns [`Measured`]: tables of samples,
//! and curves of rates over time. A [`Report`] puts that together with what is known of the machine
//! and of how quiet it was, and is written as text, JSON, CSV, or a page to look at. A report that
//! was kept can stand beside a new one.
#![forbid(unsafe_code)]

pub mod ground;
pub mod limits;
pub mod load;
pub mod machine;
pub mod progress;
pub mod relay;
pub mod report;
pub mod run;
pub mod stop;

pub use ground::Ground;
pub use progress::RunProgress;
pub use report::{Measured, Report};
pub use run::Run;
pub use stop::Stop;
