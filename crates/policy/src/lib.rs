//! May they, and why? Given the rules of the exports, a credential and a request, this crate
//! decides, and returns the trail by which it came to its decision.
//!
//! Pure: it reads no file and no clock. A door asks with the final path of the file, never with
//! that of a hidden part, and asks before it touches the store.
//!
//! The order of things:
//! 1. a credential that was sent but is not valid (not ours, expired, used from elsewhere) is
//!    refused as an invalid token, even where anybody may do the same without: its sender means to
//!    be somebody and has to learn that the token is of no use;
//! 2. the deepest export that holds the path gives the rules; without one there is no such file;
//! 3. the ceiling of the export (`read_only`) binds everybody;
//! 4. what the credential grants and what the export gives to anybody add up. A valid token never
//!    has fewer rights than none, because its holder could leave it out.
#![forbid(unsafe_code)]

mod decide;
mod explanation;
mod hint;
mod operation;
pub mod rendezvous;
mod rules;
mod trail;

pub use decide::{Decision, Refusal, Request, decide, explain};
pub use explanation::Explanation;
pub use hint::Hint;
pub use operation::{Access, Operation};
pub use rules::{AnonymousAccess, ExportRules, export_of, rights_of};
pub use trail::Step;
