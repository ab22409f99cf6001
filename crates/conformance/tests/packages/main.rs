//! Packages: what is in them, that they are made the same twice, and
//! that Debian and rpm install, use and remove them.

mod content;
mod debian;
mod materials;
mod rpm;
mod symbols;
mod workshop;
