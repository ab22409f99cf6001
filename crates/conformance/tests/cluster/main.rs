//! A redirector in front of several servers, with the clients that people have.

mod capabilities;
mod faults;
mod http;
mod near;
mod nodes;
mod queue;
mod site;
mod upgrade;
mod xroot;
