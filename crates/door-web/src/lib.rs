//! Pages for operators: what a server is and does now, for people, and as JSON for programs.
//!
//! Pages are made on the server (`templates`), and work without scripts. Each answers JSON at the
//! same path if the client prefers it. Nothing is loaded from elsewhere: the Content Security
//! Policy allows our own style sheet and script, and nothing inline.
//!
//! Much of what pages show was written by others, such as names of files. Templates therefore
//! print [`Words`] only, which have no control characters left, and escape them.
#![forbid(unsafe_code)]

mod actions;
mod admission;
mod attempts;
mod blame;
mod cluster_door;
pub mod cluster_facts;
mod cluster_page;
mod cookies;
mod copies;
mod door;
mod endpoint_page;
mod error_page;
mod explain_form;
mod facts;
mod figures;
mod forms;
mod issuer_answer;
mod issuer_sign_in;
mod issuer_words;
mod job_page;
mod kept_runs;
pub mod limits;
mod links_page;
mod live;
mod manual;
mod mesh_door;
mod mesh_page;
mod now_page;
mod queue_door;
pub mod queue_facts;
mod queue_page;
mod queue_view;
mod queue_words;
mod respond;
mod rows;
mod security;
mod sessions;
mod shell;
mod sign_in;
mod stage;
mod view;
mod words;

pub use admission::{Access, Acted, PageEvents, RulesNow};
pub use blame::faults;
pub use copies::RunningCopies;
pub use door::{EndpointFuture, EndpointPages, ExplainFuture, Pages, door};
pub use facts::{
    Certificate, Check, EndpointFacts, ExplainAnswer, ExplainQuestion, Export, Key, Section, Setting, Share,
};
pub use issuer_sign_in::{IssuerSettings, RETURN_PATH};
pub use kept_runs::KeptRuns;
pub use manual::Manual;
pub use words::Words;
