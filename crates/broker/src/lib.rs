//! Sends messages to a broker that speaks STOMP, such as ActiveMQ or RabbitMQ, and has each
//! confirmed. What is sent, and from where after a failure, its users decide.
#![forbid(unsafe_code)]

mod address;
pub mod limits;
mod session;

pub use address::{Broker, BrokerLogin};
pub use session::{Message, Session, Unconfirmed};
