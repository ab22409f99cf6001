//! The fault campaign: copies of every kind between two servers, a fault at a random moment of
//! each, and a look at what is stored afterwards. Whatever happens, a file under its final name is
//! whole, an upload that was acknowledged is there, and nothing unfinished stays behind a restart.
//!
//! `FAULT_SECONDS` (default 3) is how long it goes on, `FAULT_SEED` what chance begins with. `./dev
//! faults SECONDS` runs it.

mod fault;
mod ground;
mod operation;
mod outcome;

use std::env;
use std::time::{Duration, Instant};

use testkit::{available, require};

use crate::dice::Dice;
use crate::ledger;
use crate::{number, seed};
use fault::Fault;
use ground::Ground;
use operation::Operation;
use outcome::{OUTCOMES, Outcome};

type Ledger = ledger::Ledger<Fault, Outcome>;

const SECONDS_DEFAULT: u64 = 3;
/// Rounds between two looks at every file.
const ROUNDS_TO_AUDIT: u64 = 16;

#[test]
fn no_fault_loses_a_file() {
    let test = "no_fault_loses_a_file";
    let ground = ["curl", "xrdcp"]
        .iter()
        .try_for_each(|program| require(program).map(drop));
    let Some(mut ground) = available(test, ground.and_then(|()| Ground::new())) else {
        return;
    };
    let limit = Duration::from_secs(number("FAULT_SECONDS").unwrap_or(SECONDS_DEFAULT));
    let seed = seed("FAULT_SEED");
    println!("fault campaign: FAULT_SEED={seed}, {} s", limit.as_secs());
    let mut dice = Dice::new(seed);
    let mut ledger = Ledger::default();
    let (begin, mut rounds) = (Instant::now(), 0_u64);
    while begin.elapsed() < limit || rounds == 0 {
        rounds += 1;
        let fault = Fault::draw(&mut dice);
        let operation = Operation::draw(&mut dice, fault);
        let start = Instant::now();
        let outcome = ground.play(&mut dice, &operation, fault, &mut ledger);
        if env::var_os("FAULT_VERBOSE").is_some() {
            println!(
                "{:6} ms  {outcome:?}: {}",
                start.elapsed().as_millis(),
                operation.words(fault)
            );
        }
        ledger.count(fault, outcome);
        if rounds.is_multiple_of(ROUNDS_TO_AUDIT) {
            ground.audit(&mut ledger);
        }
    }
    ground.begin_again(&mut ledger);
    ground.audit(&mut ledger);
    let table = ledger.table("fault", &OUTCOMES);
    println!("{rounds} rounds in {} s\n{table}", begin.elapsed().as_secs());
    assert!(
        ledger.violations().is_empty(),
        "FAULT_SEED={seed}: {}\n{}",
        ledger.violations().len(),
        ledger.violations().join("\n")
    );
}
