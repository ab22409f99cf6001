//! Tests that measure: memory, waits, processor time of threads. They are a program of their own,
//! because tests beside them would disturb the figures; keep it small.

mod background;
mod chosen_streams;
mod idle;
mod long_listings;
mod nagle;
