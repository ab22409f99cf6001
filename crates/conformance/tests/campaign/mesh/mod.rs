//! Meshes of twelve endpoints from several makers. Six endpoints have a fault, and the link between
//! two others is slow; a seed decides which. The mesh must name each fault on its side and in its
//! phase, and no other.
//!
//! An arrangement takes several seconds, most of them because of the slow copies. So `cargo test`
//! runs `MESH_SEEDS_DEFAULT` of them. `MESH_SEEDS` is how many are run, `MESH_SEED` the first of
//! them, and with `MESH_VERBOSE` the findings are printed.

mod arrangement;
mod servers;
mod verdict;

use std::env;
use std::time::Instant;

use testkit::available;

use self::arrangement::Arrangement;
use self::servers::Servers;
use crate::dice::Dice;
use crate::number;

const MESH_SEEDS_DEFAULT: u64 = 1;
const MESH_SEED_DEFAULT: u64 = 1;

#[test]
fn every_planted_fault_is_named_and_no_other() {
    let test = "every_planted_fault_is_named_and_no_other";
    let Some(servers) = available(test, Servers::start()) else {
        return;
    };
    let first = number("MESH_SEED").unwrap_or(MESH_SEED_DEFAULT);
    let count = number("MESH_SEEDS").unwrap_or(MESH_SEEDS_DEFAULT);
    let mut wrong = Vec::new();
    for seed in first..first + count {
        let began = Instant::now();
        let arrangement = Arrangement::new(&servers, &mut Dice::new(seed), seed);
        println!("MESH_SEED={seed}: {}", arrangement.words());
        let found = arrangement.run();
        if env::var_os("MESH_VERBOSE").is_some() {
            println!("{}", found.words());
        }
        let violations = found.violations(&arrangement);
        println!("    {:.1} s, {}", began.elapsed().as_secs_f64(), found.counts());
        wrong.extend(violations.into_iter().map(|what| format!("MESH_SEED={seed}: {what}")));
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}
