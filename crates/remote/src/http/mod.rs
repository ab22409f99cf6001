//! The client side of HTTP, WebDAV and HTTP third-party copy.

mod answer;
mod client;
mod content;
mod copy;
mod cut_name;
mod delegate;
mod download;
mod exchange;
mod listing;
mod macaroon;
mod namespace;
mod outlet;
mod pool;
mod protocol;
mod ranges;
mod resource;
mod service;
mod signed;
mod verdict;

pub(crate) use answer::Answer;
pub(crate) use client::Client;
pub(crate) use download::Download;
pub(crate) use exchange::{Ask, Body, Hop};
pub(crate) use outlet::Outlet;
pub(crate) use service::service_refusal;
