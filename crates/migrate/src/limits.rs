//! Limits of what is read.

/// Most files that one migration reads, those included from others too.
pub const FILES_MAX: usize = 1000;
/// Deepest inclusion of files in files.
pub const DEPTH_MAX: usize = 16;
/// Most lines that all files may have together.
pub const LINES_MAX: usize = 1_000_000;
/// Longest value after variables are replaced, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Longest original line in a comment, in characters; the rest is cut.
pub const COMMENT_CHARACTERS_MAX: usize = 160;
/// Most original lines in the comments of one key; the others are counted.
pub const COMMENTS_MAX: usize = 4;
