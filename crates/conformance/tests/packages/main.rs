//! Packages: what is in them, that they are made the same twice, that signatures are verified, and
//! that Debian and rpm install, use and remove them.

mod content;
mod debian;
mod materials;
mod release;
mod rpm;
mod signatures;
mod symbols;
mod workshop;
