//! The measured tables: loads that are put on any endpoint, and what is said of how it bore them.
#![forbid(unsafe_code)]
