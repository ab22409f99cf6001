//! What a macaroon says.

use super::{Inspection, TokenKind, time_in_words};
use crate::activity::{Activities, Activity};
use crate::caveat::Caveat;
use crate::duration::duration_in_words;
use crate::grant::Grant;
use crate::macaroon::{Macaroon, RawCaveat};

pub(super) fn inspect(token: &str, now_s: i64) -> Inspection {
    let macaroon = match Macaroon::parse(token) {
        Ok(macaroon) => macaroon,
        Err(error) => {
            let why = error.detail().unwrap_or("it cannot be read").to_owned();
            return Inspection::unknown(format!("it is neither a macaroon nor a JSON Web Token: {why}"), now_s);
        }
    };
    let mut inspection = Inspection::new(TokenKind::Macaroon, now_s);
    inspection.fact("location", macaroon.location());
    inspection.fact("identifier", macaroon.identifier());
    let mut known = Vec::new();
    for raw in macaroon.caveats() {
        known.extend(describe(raw, &mut inspection));
    }
    let all_known = known.len() == macaroon.caveats().len();
    sum_up(&mut inspection, &known, all_known);
    inspection
}

/// Adds a caveat with its meaning; gives it back when it is understood.
fn describe(raw: &RawCaveat, inspection: &mut Inspection) -> Option<Caveat> {
    let text = raw.shown();
    if raw.verification.is_some() {
        let meaning = "a third party has to discharge it; no storage server is known to take such a token";
        inspection.part(&text, meaning, false);
        return None;
    }
    match raw.understand() {
        Ok(caveat) => {
            inspection.part(&text, meaning_of(&caveat, inspection.now_s), true);
            Some(caveat)
        }
        Err(error) => {
            let foreign = match text.split(':').next() {
                Some("root" | "home") => "a caveat of dCache about its directories, not known here",
                _ => error.detail().unwrap_or("it cannot be read"),
            };
            inspection.part(&text, foreign, false);
            None
        }
    }
}

fn meaning_of(caveat: &Caveat, now_s: i64) -> String {
    match caveat {
        Caveat::Activity(activities) => format!("only to {}", words_of(*activities)),
        Caveat::Path(path) => format!("only {path} and what is below it"),
        Caveat::Before(time_s) if *time_s > now_s => {
            format!("valid for another {}", duration_in_words(time_s.abs_diff(now_s)))
        }
        Caveat::Before(time_s) => format!("expired {} ago", duration_in_words(time_s.abs_diff(now_s))),
        Caveat::Address(_) => "only from one of these addresses".to_owned(),
        Caveat::MaxUpload(size_bytes) => format!("no upload above {size_bytes} bytes"),
        Caveat::Except(exception) => format!("but not to {} there", words_of(exception.activities)),
        Caveat::Name(name) => format!("issued to the user {name}"),
        Caveat::Id(id) => match id.rsplit(';').next() {
            Some(name) if id.contains(';') => format!("issued to the user {name} (dCache: uid;gids;name)"),
            _ => format!("issued to the user {id}"),
        },
        Caveat::IssueId(_) => "the number of the issuing act (dCache)".to_owned(),
    }
}

/// The activities as verbs.
fn words_of(activities: Activities) -> String {
    let verb = |activity| match activity {
        Activity::ReadMetadata => "see size, time and checksum",
        Activity::UpdateMetadata => "change metadata",
        Activity::List => "list directories",
        Activity::Download => "read files",
        Activity::Upload => "write new files",
        Activity::Manage => "make directories, rename and overwrite",
        Activity::Delete => "delete",
        // No macaroon names these.
        Activity::Insert => "make new names",
        Activity::Replace => "write into files",
        Activity::Rename => "take names away",
        Activity::Stage => "bring files from tape",
    };
    activities.iter().map(verb).collect::<Vec<_>>().join(", ")
}

/// What all caveats together leave, and what is to be warned of.
fn sum_up(inspection: &mut Inspection, known: &[Caveat], all_known: bool) {
    let now_s = inspection.now_s;
    if !all_known {
        inspection
            .warn("a server refuses a token with a caveat that it does not know; those marked ? are not known here");
    }
    let grant = match Grant::from_caveats(known) {
        Ok(grant) => grant,
        Err(error) => {
            inspection.warn(format!("it is refused here: {}", error.detail().unwrap_or_default()));
            return;
        }
    };
    inspection.expires_s = grant.expires_s;
    let allows = match grant.scopes.first() {
        None => "nothing: its caveats exclude each other".to_owned(),
        Some(scope) => format!("to {}, on {} and below", words_of(scope.activities), scope.path),
    };
    inspection.fact("allows", allows);
    match grant.expires_s {
        None => inspection.warn("it never expires"),
        Some(expires_s) => {
            inspection.fact("expires", time_in_words(expires_s, now_s));
            if grant.is_expired(now_s) {
                inspection.warn("it has expired");
            }
        }
    }
    let names_activity = known.iter().any(|caveat| matches!(caveat, Caveat::Activity(_)));
    if !names_activity {
        inspection.warn("no caveat names an activity: it allows everything that its issuer may do");
    }
}
