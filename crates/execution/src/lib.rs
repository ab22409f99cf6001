//! Every thread and every runtime of the process: what runs where, and why.
//!
//! | threads | started by | what runs there |
//! |---|---|---|
//! | `connections`, one runtime each | [`ServerThreads`] | connections, from accept to close; cached reads and writes of files |
//! | `copies`, one runtime | [`ServerThreads`] | third-party copies ([`CopyRuntime`]), renewal of keys, reload, the admin port |
//! | `background`, one runtime, nicer | [`background`] | connections while they move much for one request |
//! | `send`, as many as files are sent, most of them nicer | [`senders`] | `sendfile`, or read, seal and send, for one reader that keeps up |
//! | `commit`, as many as wait for a disk, nicer | [`Lane::run_commit`] | what makes a file durable |
//! | blocking pool of each runtime | [`blocking`], [`Lane::run_blocking`] | reads from a slow disk, removals, names, keys |
//! | `catalog`, and `catalog-read-0` to `-3` | [`start_thread`] | the queue's SQLite: one writes, four read |
//! | `names`, for each look-up | [`start_thread`] | the system's look-up of a host to connect to |
//! | `log`, `late-close`, `usage-scan` | [`start_thread`] | one job each, without a waiting caller |
//!
//! **A connection stays with one thread.** In a runtime of several threads all tasks share one
//! queue. A small request then waits for every third-party copy that is ready to run, and each copy
//! holds a thread for half a millisecond: 30 ms beside ten pulls, 77 to 130 ms beside a hundred. On
//! a thread of its own it waits for the processor only: 0.03 ms. And no thread wakes another for a
//! small request. The price is that an idle thread does not take over from a busy one, so nothing
//! that takes long may run there; the other rows of the table exist for that.
//!
//! **Copies run on the runtime of the process**, regardless of which connection requested them.
//!
//! **Long transfers are nicer.** The runtime knows no priorities, but the system does. A task that
//! receives from a fast sender never waits, so a question beside 64 uploads waited for 20 ms. A
//! connection that has moved four megabytes for one request therefore continues on a second runtime
//! whose threads are nicer, and comes back to wait for the next request (now 0.02 ms). The code of
//! the transfer does not notice: its future is wrapped once, where it is spawned
//! ([`background::movable`]). How much nicer depends on who else shares the processors
//! ([`niceness`]).
//!
//! **A long file has a thread of its own** as long as its reader keeps up. The reader's
//! acknowledgement wakes it at once, while the queue of the socket still has something in it; a
//! runtime comes by later and finds the queue dry, which costs a quarter more processor time. It
//! also waits for the disk and, over TLS, seals.
//!
//! **A cached operation runs where it is called.** It takes microseconds, and handing it to another
//! thread and back costs more. A [`Lane`] measures, and sends the calls of a store that has become
//! slow to the blocking pool until it is quick again. Commits have threads of their own: with a
//! slow disk hundreds of them would fill the pool in which names are looked up. A small commit to a
//! quick disk runs in place.
//!
//! **What threads share belongs to their owner**, a server or a command: how nice they are, where
//! the background is, who sends, and what other crates keep for all threads, such as buffers
//! ([`shared()`]). Each thread that is started here knows its owner's; there is no static, so two
//! servers in one process have nothing in common.
//!
//! No other crate starts a thread or builds a runtime; `cargo xtask tidy` checks it.
#![forbid(unsafe_code)]

pub mod background;
mod commit_gauge;
mod commit_pool;
mod lane;
pub mod limits;
pub mod niceness;
mod runtimes;
pub mod senders;
mod shared;
mod threads;
mod workers;

pub use lane::Lane;
pub use runtimes::{CopyRuntime, ServerThreads, TaskCount, single_thread_runtime, worker_runtime};
pub use shared::shared;
pub use threads::{blocking, blocking_try, start_thread};
pub use workers::{Rota, Seat};
