//! A redirector in front of several servers, with the clients that people have.
#![allow(clippy::print_stdout, reason = "figures are printed")]

mod bus;
mod bus_check;
mod bus_clients;
mod bus_faults;
mod bus_mixed;
mod bus_trust;
mod capabilities;
mod capabilities_xroot;
mod faults;
mod http;
mod ids;
mod links;
mod near;
mod nodes;
mod pages;
mod queue;
mod site;
mod smoke;
mod upgrade;
mod xroot;
