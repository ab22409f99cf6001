//! The campaign of stores: exports in front of other servers, with and without a cache, several
//! clients at once, and a fault between the servers or at one of them. Whatever happens, what a
//! client gets is a version of the file that was there, or an error; what is stored is the old or
//! the new version; and nothing unfinished stays.
//!
//! `STORE_ROUNDS` (default 1000) is how long it goes on, `STORE_SEED` what chance begins with.

mod client;
mod fault;
mod ground;
mod place;
mod task;

use std::env;
use std::time::Instant;

use testkit::available;

use self::fault::Fault;
use self::ground::Ground;
use self::task::{OUTCOMES, Outcome, What};
use crate::dice::Dice;
use crate::{ledger, number, seed};

/// What clients did and what went wrong, each with what came of it. Only the first one has
/// violations.
#[derive(Default)]
struct Ledgers {
    tasks: ledger::Ledger<What, Outcome>,
    faults: ledger::Ledger<Fault, Outcome>,
}

const ROUNDS_DEFAULT: u64 = 1000;
/// Rounds between two looks at every file.
const ROUNDS_TO_AUDIT: u64 = 250;

#[test]
fn no_fault_behind_an_export_shows_another_file() {
    let test = "no_fault_behind_an_export_shows_another_file";
    let Some(mut ground) = available(test, Ground::new()) else {
        return;
    };
    let rounds = number("STORE_ROUNDS").unwrap_or(ROUNDS_DEFAULT);
    let seed = seed("STORE_SEED");
    println!("store campaign: STORE_SEED={seed}, {rounds} rounds");
    let mut dice = Dice::new(seed);
    let mut ledgers = Ledgers::default();
    let begin = Instant::now();
    for round in 1..=rounds {
        let began = Instant::now();
        let words = ground.round(&mut dice, &mut ledgers);
        if env::var_os("STORE_VERBOSE").is_some() {
            println!("{round} {:6} ms  {words}", began.elapsed().as_millis());
        }
        if round.is_multiple_of(ROUNDS_TO_AUDIT) {
            ground.audit(&mut ledgers);
        }
    }
    ground.end(&mut ledgers);
    println!("{rounds} rounds in {} s", begin.elapsed().as_secs());
    println!("{}", ledgers.tasks.table("client", &OUTCOMES));
    println!("{}", ledgers.faults.table("fault", &OUTCOMES));
    let violations = ledgers.tasks.violations();
    assert!(
        violations.is_empty(),
        "STORE_SEED={seed}: {}\n{}",
        violations.len(),
        violations.join("\n")
    );
    if rounds >= ROUNDS_DEFAULT {
        for what in What::ALL {
            let wanted = if what == What::WriteHalf {
                Outcome::Refused
            } else {
                Outcome::Done
            };
            assert!(ledgers.tasks.has(what, wanted), "{what:?} never succeeded");
        }
        for fault in Fault::ALL {
            let has = |outcome: &Outcome| ledgers.faults.has(fault, *outcome);
            assert!(OUTCOMES.iter().any(has), "{fault:?} never was");
        }
    }
}
