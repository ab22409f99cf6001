//! Limits of the instruments.

/// Largest calendar file, in bytes.
pub(crate) const CALENDAR_BYTES_MAX: u64 = 4 << 20;
/// Most downtimes of one calendar.
pub(crate) const DOWNTIMES_MAX: usize = 10_000;
/// Most endpoints of a mesh.
pub(crate) const ENDPOINTS_MAX: usize = 1_000;
/// Most cells of a mesh: the full mesh of 300 endpoints in one protocol and mode is just below.
pub(crate) const CELLS_MAX: usize = 100_000;
/// Most copies that a mesh has under way.
pub(crate) const PARALLEL_MAX: u32 = 1_000;
/// Size of a file that is read again at its source after any failed copy. A larger one is only
/// read if the destination has something else.
pub(crate) const EXAMINED_BYTES_MAX: u64 = 16 << 20;
