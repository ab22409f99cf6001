//! May they, and why? Given the rules of the exports, a credential and a request, this crate
//! decides, and returns the trail by which it came to its decision.
//!
//! Pure: it reads no file and no clock. A door asks with the final path of the file, never with
//! that of a hidden part, and asks before it touches the store.
//!
//! The order of things:
//! 1. a token that was sent but is not valid (not ours, expired, used from elsewhere) is refused
//!    with its own code, even where anonymous clients may do the same: its sender claims an
//!    identity and has to learn that the token is useless. The holder of an invalid certificate is
//!    anonymous, since programs show certificates unasked;
//! 2. the deepest export that holds the path is the one that counts; without one there is no such
//!    file;
//! 3. what the export gives to anybody, what the token grants, and what the rules that are about
//!    the holder give add up. A token that says by scopes what it may be used for, and a macaroon,
//!    give just that: rules add nothing that anybody would not have;
//! 4. what rules take from the holder is gone, whatever gave it;
//! 5. the ceiling of the export (`ceiling`, `read_only`) binds everybody, last of all.
//!
//! A valid token never has fewer rights than none, because its holder could leave it out; only a
//! rule that names its holder in `may_not` makes an exception.
#![forbid(unsafe_code)]

mod area;
mod authdb;
mod decide;
mod drain;
mod explanation;
mod hint;
pub mod limits;
mod listing;
mod operation;
mod owner;
mod policy;
mod rename;
pub mod rendezvous;
mod rights;
mod rule;
mod rules;
mod same_rights;
mod tell;
mod trail;
mod who;

pub use area::Area;
pub use authdb::{AuthdbFault, read_authdb};
pub use decide::{Decision, Refusal, Request, allows_at_most, decide, explain};
pub use drain::Drain;
pub use explanation::Explanation;
pub use hint::Hint;
pub use listing::NameEdges;
pub use operation::{Access, Operation};
pub use owner::{InTheNameOf, in_the_name_of};
pub use policy::Policy;
pub use rights::handed_on;
pub use rule::{Rule, parse_given, parse_taken};
pub use rules::{AnonymousAccess, ExportRules, export_of};
pub use trail::{Lack, RuleOutcome, Step};
pub use who::Who;
