//! The container image and the Helm chart.

mod image;
mod mounted;
mod rendered;
mod running;
mod valid;
