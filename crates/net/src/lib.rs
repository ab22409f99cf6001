//! Sockets, TLS, dialling and buffers: how bytes enter and leave the machine.
//!
//! The payload path lives here. A payload byte is copied by the kernel into a pooled buffer,
//! decrypted where it lies, and handed on by reference ([`Batch`]); the other way round a file is
//! read straight into the slots of TLS records ([`Outgoing`]), sealed where it lies, and sent with
//! one call. Handshakes and keys are rustls' business; only the sealing and opening of records is
//! done here (by [`records`]), because every ready-made record layer copies the payload two more
//! times.
#![deny(unsafe_op_in_unsafe_fn)]

pub mod address;
pub mod buffer;
pub mod dial;
mod failure;
mod flow_label;
pub mod frames;
pub mod http;
pub mod limits;
pub mod listen;
pub mod names;
pub mod pages;
pub mod random;
mod resolve;
pub mod room;
mod stream;
pub mod tls;

pub use buffer::{Batch, Buffer};
pub use failure::Role;
pub use frames::Frames;
pub use stream::{Bundle, Ends, Outgoing, Stream, Turn, Waits};
