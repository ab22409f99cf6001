//! The container image and the Helm chart.

mod image;
