//! The client against scripted peers: good ones, odd ones and broken ones.

mod asking;
mod ranges;
mod reading;
mod redirects;
mod s3;
mod script;
mod waiting;
mod writing;
