//! Limits of this crate. Those that a site may want to change are defaults that the configuration
//! overrides; the rest are fixed.

/// Most sending threads that wait for the next file; each ends after a second without one.
pub const STEADY_IDLE_MAX: usize = 64;
/// Threads per export that make uploads durable. Each waits for the disk; further uploads wait for
/// a thread.
pub const COMMIT_THREADS_MAX: usize = 256;
