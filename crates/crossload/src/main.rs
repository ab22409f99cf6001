//! The crossload binary.

fn main() {}
