//! A client of a cluster over the XRootD protocol: one session with the redirector, and one with
//! each node that it was sent to, all kept open.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use testkit::Result;
use xroot_wire::request::{Read, Request, Write};
use xroot_wire::response::{OpenReply, Redirect, RedirectTarget};
use xroot_wire::{FileHandle, OpenOptions};

use super::Place;
use crate::root::{Reply, XrootSession, failed, opening};

/// Data of one write, and writes under way.
const WRITE_BYTES: usize = 1 << 20;
const WRITES: usize = 4;
/// How often a request may be put off: many times while a manager starts.
const DELAYS_MAX: u32 = 100;

/// A new file for writing.
const NEW: OpenOptions = OpenOptions::NEW.union(OpenOptions::UPDATE);

/// A client.
pub(super) struct RootClient {
    redirector: XrootSession,
    nodes: BTreeMap<u16, XrootSession>,
}

impl RootClient {
    /// Logs in at a redirector.
    pub(super) fn connect(port: u16) -> Result<Self> {
        Ok(Self {
            redirector: XrootSession::open(port, false)?,
            nodes: BTreeMap::new(),
        })
    }

    /// Asks for a file, and waits as the redirector says. `None`: it does not exist.
    pub(super) fn find(&mut self, path: &str) -> Result<Option<Place>> {
        self.ask(path, OpenOptions::READ)
    }

    /// Asks once, and says whether the answer was a node.
    pub(super) fn is_found_now(&mut self, path: &str) -> Result<bool> {
        self.send(path)?;
        Ok(matches!(self.redirector.reply()?.1, Reply::Redirected(_)))
    }

    fn ask(&mut self, path: &str, options: OpenOptions) -> Result<Option<Place>> {
        for _ in 0..DELAYS_MAX {
            self.redirector.queue(&opening(path, options));
            self.redirector.send()?;
            match self.redirector.reply()?.1 {
                Reply::Redirected(redirect) => return place(&redirect, path).map(Some),
                Reply::NotFound => return Ok(None),
                Reply::Later(delay) => thread::sleep(delay),
                Reply::Done(_) => return Err(failed(format!("the redirector opened {path} itself"))),
            }
        }
        Err(failed(format!("{path} was put off {DELAYS_MAX} times")))
    }

    /// Sends the question for a file, without waiting.
    pub(super) fn send(&mut self, path: &str) -> Result<()> {
        self.redirector.queue(&opening(path, OpenOptions::READ));
        self.redirector.send()
    }

    /// Waits for one redirection.
    pub(super) fn receive(&mut self) -> Result<()> {
        match self.redirector.reply()?.1 {
            Reply::Redirected(_) => Ok(()),
            other => Err(failed(format!("no redirection, but {other:?}"))),
        }
    }

    /// Asks for all of `paths`, many at once, and again for those that are put off. Returns how
    /// many exist.
    pub(super) fn find_all(&mut self, paths: &[String]) -> Result<usize> {
        const TOGETHER: usize = 64;
        let mut asked: Vec<&String> = paths.iter().collect();
        let mut found = 0;
        for _ in 0..DELAYS_MAX {
            let (mut again, mut delay) = (Vec::new(), Duration::ZERO);
            for group in asked.chunks(TOGETHER) {
                let mut open = BTreeMap::new();
                for path in group {
                    open.insert(self.redirector.queue(&opening(path, OpenOptions::READ)).number(), *path);
                }
                self.redirector.send()?;
                while !open.is_empty() {
                    let (stream, reply) = self.redirector.reply()?;
                    let path = open.remove(&stream.number());
                    let path = path.ok_or_else(|| failed("an answer to no question"))?;
                    match reply {
                        Reply::Redirected(_) => found += 1,
                        Reply::NotFound => {}
                        Reply::Later(more) => {
                            again.push(path);
                            delay = delay.max(more);
                        }
                        Reply::Done(_) => return Err(failed(format!("the redirector opened {path} itself"))),
                    }
                }
            }
            if again.is_empty() {
                return Ok(found);
            }
            thread::sleep(delay);
            asked = again;
        }
        Err(failed(format!("{} names were put off {DELAYS_MAX} times", asked.len())))
    }

    fn node(&mut self, port: u16) -> Result<&mut XrootSession> {
        Ok(match self.nodes.entry(port) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(XrootSession::open(port, false)?),
        })
    }

    fn open(&mut self, place: &Place, options: OpenOptions) -> Result<OpenReply> {
        self.node(place.port)?.open_file(&place.target, options)
    }

    /// Opens a file at a node, and closes it.
    pub(super) fn open_and_close(&mut self, place: &Place) -> Result<()> {
        let handle = self.open(place, OpenOptions::READ)?.handle;
        self.node(place.port)?.close(handle)
    }

    /// Reads a small file at a node.
    pub(super) fn read(&mut self, place: &Place, size_bytes: u64) -> Result<()> {
        let handle = self.open(place, OpenOptions::READ)?.handle;
        let node = self.node(place.port)?;
        node.queue(&Request::Read(Read {
            handle,
            offset: 0,
            length: u32::try_from(size_bytes).map_err(failed)?,
            path: None,
        }));
        node.send()?;
        let mut got = 0;
        let mut count = |bytes: &[u8]| {
            got += bytes.len() as u64;
            Ok(())
        };
        while !node.pass_answer(&mut count)? {}
        match got == size_bytes {
            true => node.close(handle),
            false => Err(failed(format!("{got} bytes instead of {size_bytes}"))),
        }
    }

    /// Asks where a new file is to go.
    pub(super) fn place_new(&mut self, path: &str) -> Result<Place> {
        self.ask(path, NEW)?
            .ok_or_else(|| failed(format!("{path} cannot be stored")))
    }

    /// Stores a new file at a node.
    pub(super) fn store(&mut self, place: &Place, source: &Path) -> Result<()> {
        let handle = self.open(place, NEW)?.handle;
        let node = self.node(place.port)?;
        write_all(node, handle, &mut File::open(source)?)?;
        node.close(handle)
    }
}

/// Sends a file in pieces, with a few in flight.
fn write_all(node: &mut XrootSession, handle: FileHandle, source: &mut File) -> Result<()> {
    let mut buffer = vec![0; WRITE_BYTES];
    let (mut offset, mut unanswered) = (0, 0);
    loop {
        let length = source.read(&mut buffer)?;
        if length > 0 {
            node.queue(&Request::Write(Write {
                handle,
                offset,
                path: 0,
                data_bytes: length,
            }));
            node.send()?;
            node.send_data(&buffer[..length])?;
            offset += length as u64;
            unanswered += 1;
        }
        while unanswered > 0 && (length == 0 || unanswered == WRITES) {
            match node.reply()?.1 {
                Reply::Done(_) => unanswered -= 1,
                other => return Err(failed(format!("a write is answered with {other:?}"))),
            }
        }
        if length == 0 {
            return Ok(());
        }
    }
}

/// The node that a redirection names, on this machine.
fn place(redirect: &Redirect, path: &str) -> Result<Place> {
    let port = match &redirect.target {
        RedirectTarget::Host { port, .. } => *port,
        RedirectTarget::Url { url, .. } => super::port_of(url),
    };
    Ok(Place {
        port: port.ok_or_else(|| failed(format!("the redirection of {path} names no port")))?,
        target: match &redirect.cgi {
            Some(cgi) => format!("{path}?{cgi}"),
            None => path.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_keeps_the_path_and_returns_what_it_was_given() {
        let mut redirect = Redirect::to_host("localhost", 1094);
        redirect.cgi = Some("key=value".to_owned());
        let found = place(&redirect, "/data/f").expect("a place");
        assert_eq!((found.port, found.target.as_str()), (1094, "/data/f?key=value"));
        let found = place(&Redirect::to_url("root://localhost:1095"), "/data/f").expect("a place");
        assert_eq!((found.port, found.target.as_str()), (1095, "/data/f"));
    }
}
