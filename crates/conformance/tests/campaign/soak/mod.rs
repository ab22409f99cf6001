//! The soak: a mixed load over both protocols, with every kind of credential, for as long as one
//! likes, and the question whether the server's memory, descriptors, threads or tasks keep growing.
//!
//! A round has the same operations each time, in another order. After each round the server comes
//! to rest and is sampled, so that what it is doing at a moment does not count. The first quarter
//! of the rounds is the warm-up, in which caches fill; [`trend`] says what is a trend in the
//! others.
//!
//! `SOAK_SECONDS` is how long it goes on, `SOAK_SEED` what chance begins with. Without
//! `SOAK_SECONDS` each operation is tried in a single round, and nothing is judged. `./dev soak
//! MINUTES` runs it. When something grows, `SOAK_ONLY` (a part of the names of operations) helps to
//! find out where.

mod copies;
mod http;
mod load;
mod programs;
mod root;
mod sample;
mod site;
mod trend;

use std::env;
use std::time::{Duration, Instant};

use testkit::available;

use crate::dice::Dice;
use crate::{number, seed};
use load::{Ledger, OUTCOMES, round};
use sample::{COUNT, MEMORY, QUANTITIES, Sample, sentence, trends};
use site::Site;
use trend::SAMPLES_MIN;

/// The part of the rounds that is the warm-up: one of so many, but at least so many rounds, in
/// which most caches fill.
const WARM_UP_PART: usize = 4;
const WARM_UP_MIN: usize = 20;
/// Fewest rounds that show a trend.
const ROUNDS_MIN: usize = WARM_UP_MIN + SAMPLES_MIN;

#[test]
fn nothing_keeps_growing_under_a_mixed_load() {
    let test = "nothing_keeps_growing_under_a_mixed_load";
    let Some(mut site) = available(test, Site::start()) else {
        return;
    };
    let seconds = number("SOAK_SECONDS");
    let limit = Duration::from_secs(seconds.unwrap_or(0));
    let rounds_min = if seconds.is_some() { ROUNDS_MIN } else { 1 };
    let seed = seed("SOAK_SEED");
    println!("soak: SOAK_SEED={seed}, {} s", limit.as_secs());
    let mut dice = Dice::new(seed);
    let mut ledger = Ledger::default();
    let mut samples: Vec<Sample> = Vec::new();
    if seconds.is_some() {
        http::fill_explanations(&site);
    }
    let (begin, mut operations) = (Instant::now(), 0);
    while begin.elapsed() < limit || samples.len() < rounds_min {
        operations += round(&site, &mut dice, &mut ledger);
        let sample = sample::take(&mut site, operations as u64).expect("a running server");
        if env::var_os("SOAK_VERBOSE").is_some() {
            println!("{:>6} s {}", begin.elapsed().as_secs(), sample.line());
        }
        samples.push(sample);
        site.turn_log_over().expect("a new log");
    }
    println!("{}", ledger.table("operation", &OUTCOMES));
    println!(
        "{operations} operations in {} rounds and {} s",
        samples.len(),
        begin.elapsed().as_secs()
    );
    let mut faults: Vec<String> = ledger.violations().to_vec();
    if seconds.is_some() {
        let warm_up = (samples.len() / WARM_UP_PART).max(WARM_UP_MIN);
        faults.extend(judge(&samples[warm_up..]));
    }
    assert!(
        faults.is_empty(),
        "SOAK_SEED={seed}: {}\n{}",
        faults.len(),
        faults.join("\n")
    );
}

/// Says how each quantity developed; returns the sentences about those that keep growing.
fn judge(samples: &[Sample]) -> Vec<String> {
    let mut growing = Vec::new();
    for (quantity, trend) in QUANTITIES.into_iter().zip(trends(samples)) {
        let (words, exceeds) = sentence(quantity, &trend.expect("enough rounds"));
        println!("{words}");
        if exceeds {
            growing.push(words);
        }
    }
    growing
}
