//! Events as the packets of XRootD's monitoring. It has no socket and no clock: events and the time
//! come in, datagrams go out.

mod logins;
mod names;

use std::collections::HashMap;
use std::sync::Arc;

use monitoring_wire::{
    Batch, Closed, CopyRecord, FileId, FileRecord, FlowLabel, LoginId, Opened, Server, Stream, Totals, copy_packet,
    label_packet, login_packet, server_packet, token_packet,
};

use crate::client::Client;
use crate::copied::Copied;
use crate::file_use::{Counts, FileUse};
use crate::hub::Event;
use logins::Logins;

/// Copies that wait for their packet; more are sent at once.
const COPIES_MAX: usize = 16;

/// A packet and to whom it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// To those who hear of logins and files.
    Detail(Vec<u8>),
    /// To those who hear of third-party copies.
    Copies(Vec<u8>),
}

/// How often something is sent, in seconds, and what of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// The names of users and the subjects of their credentials.
    pub personal_names: bool,
    /// What has been gathered.
    pub flush_s: u64,
    /// What open files have moved until now: what a lost packet of their end would hide.
    pub progress_s: u64,
    /// Who the server is, and the logins whose files are open, for receivers that have forgotten
    /// them or began later.
    pub identity_s: u64,
}

/// A file that receivers take for open.
struct OpenFile {
    file: Arc<FileUse>,
    id: FileId,
    login: LoginId,
    told: Totals,
}

/// Turns events into packets.
pub struct Reporter {
    server: Server,
    wishes: Wishes,
    maps: Stream,
    files: Stream,
    copies: Stream,
    batch: Batch,
    logins: Logins,
    open: HashMap<u64, OpenFile>,
    copied: Vec<CopyRecord>,
    copied_since_s: u64,
    next_id: u32,
    flushed_s: u64,
    progress_s: u64,
    identity_s: u64,
    out: Vec<Datagram>,
}

impl Reporter {
    /// A reporter of a server that started at `now_s`, in seconds since 1970. Its first datagrams
    /// tell who the server is.
    #[must_use]
    pub fn new(server: Server, wishes: Wishes, now_s: u64) -> Self {
        let started = seconds(now_s);
        let mut reporter = Self {
            server,
            wishes,
            maps: Stream::new(started),
            files: Stream::new(started),
            copies: Stream::new(started),
            batch: Batch::new(started),
            logins: Logins::default(),
            open: HashMap::new(),
            copied: Vec::new(),
            copied_since_s: now_s,
            next_id: 0,
            flushed_s: now_s,
            progress_s: now_s,
            identity_s: now_s,
            out: Vec::new(),
        };
        reporter.tell_server();
        reporter
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event, now_s: u64) {
        match event {
            Event::Opened(file) => {
                self.opened(file, now_s);
            }
            Event::Closed(file) => self.closed(file, now_s),
            Event::Left(peer) => {
                for login in self.logins.left(*peer) {
                    self.record(&FileRecord::Left(login), now_s);
                }
            }
            Event::Copied(copied) => self.copied(copied, now_s),
            Event::FlowBegan(_) | Event::FlowEnded(_) => {}
        }
    }

    /// What is to be sent now.
    #[must_use]
    pub fn datagrams(&mut self, now_s: u64) -> Vec<Datagram> {
        if now_s.saturating_sub(self.progress_s) >= self.wishes.progress_s {
            self.progress_s = now_s;
            self.progress(now_s);
        }
        if now_s.saturating_sub(self.identity_s) >= self.wishes.identity_s {
            self.identity_s = now_s;
            self.tell_server();
            for login in self.logins.forget_idle(now_s) {
                self.record(&FileRecord::Left(login), now_s);
            }
            for (id, client, label) in self.logins.with_open_files() {
                self.tell_login(id, &client);
                if let Some(label) = label {
                    self.tell_label(id, &client, label);
                }
            }
        }
        if now_s.saturating_sub(self.flushed_s) >= self.wishes.flush_s {
            self.flush(now_s);
        }
        std::mem::take(&mut self.out)
    }

    /// All that is left, at the end of the server.
    #[must_use]
    pub fn last(&mut self, now_s: u64) -> Vec<Datagram> {
        let open: Vec<Arc<FileUse>> = self.open.values().map(|open| open.file.clone()).collect();
        for file in open {
            self.closed(&file, now_s);
        }
        self.flush(now_s);
        std::mem::take(&mut self.out)
    }

    fn tell_server(&mut self) {
        self.out.push(Datagram::Detail(self.server.packet(&mut self.maps)));
        self.out
            .push(Datagram::Copies(server_packet(&mut self.copies, &self.server)));
    }

    fn login(&mut self, client: &Client, now_s: u64) -> LoginId {
        if let Some(id) = self.logins.find(client, now_s) {
            return id;
        }
        let id = LoginId(self.fresh_id());
        if let Some(ended) = self.logins.add(client, id, now_s) {
            self.record(&FileRecord::Left(ended), now_s);
        }
        self.tell_login(id, client);
        id
    }

    fn tell_login(&mut self, id: LoginId, client: &Client) {
        let shown = self.shown(client);
        let login = names::login(&shown);
        self.out
            .push(Datagram::Detail(login_packet(&mut self.maps, &self.server, id, &login)));
        if let Some(token) = names::token(&shown) {
            self.out.push(Datagram::Detail(token_packet(
                &mut self.maps,
                &self.server,
                id,
                &login,
                &token,
            )));
        }
    }

    /// Tells what the files of a login belong to from now on.
    fn tell_label(&mut self, id: LoginId, client: &Client, label: FlowLabel) {
        let login = names::login(&self.shown(client));
        let packet = label_packet(&mut self.maps, &self.server, id, &login, label);
        self.out.push(Datagram::Detail(packet));
    }

    fn shown(&self, client: &Client) -> Client {
        match self.wishes.personal_names {
            true => client.clone(),
            false => client.without_names(),
        }
    }

    /// The next number of a file or login, never 0, which is the server.
    fn fresh_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1).max(1);
        self.next_id
    }

    fn opened(&mut self, file: &Arc<FileUse>, now_s: u64) -> (FileId, LoginId) {
        let login = self.login(&file.client, now_s);
        let id = FileId(self.fresh_id());
        if let Some(label) = self.logins.opened(&file.client, file.label) {
            self.tell_label(login, &file.client, label);
        }
        let record = Opened {
            file: id,
            size_bytes: file.size_bytes,
            login,
            path: file.path.clone(),
            is_written: file.is_written,
        };
        self.record(&FileRecord::Opened(record), now_s);
        let open = OpenFile {
            file: file.clone(),
            id,
            login,
            told: Totals::default(),
        };
        self.open.insert(file.number, open);
        (id, login)
    }

    /// An event of the open may have been dropped; the file knows everything.
    fn closed(&mut self, file: &Arc<FileUse>, now_s: u64) {
        if !self.open.contains_key(&file.number) {
            self.opened(file, now_s);
        }
        let Some(open) = self.open.remove(&file.number) else {
            return;
        };
        let closed = closed(open.id, file.is_torn(), &file.counts());
        self.record(&FileRecord::Closed(closed), now_s);
        if self.logins.closed(&file.client) {
            self.record(&FileRecord::Left(open.login), now_s);
        }
    }

    /// What open files have moved; and the end of those whose close was dropped.
    fn progress(&mut self, now_s: u64) {
        let closed: Vec<Arc<FileUse>> = self
            .open
            .values()
            .filter(|open| open.file.is_closed())
            .map(|open| open.file.clone())
            .collect();
        for file in closed {
            self.closed(&file, now_s);
        }
        let mut moved = Vec::new();
        for open in self.open.values_mut() {
            let totals = open.file.counts().totals;
            if totals != open.told {
                open.told = totals;
                moved.push(FileRecord::Moved(open.id, totals));
            }
        }
        for record in moved {
            self.record(&record, now_s);
        }
    }

    fn copied(&mut self, copied: &Copied, now_s: u64) {
        let login = self.login(&copied.client, now_s);
        self.logins.opened(&copied.client, None);
        let file = FileId(self.fresh_id());
        let opened = Opened {
            file,
            size_bytes: copied.bytes,
            login,
            path: copied.path.clone(),
            is_written: copied.is_pull,
        };
        self.record(&FileRecord::Opened(opened), now_s);
        let mut counts = Counts::default();
        let (bytes, operations) = match copied.is_pull {
            true => (&mut counts.totals.written_bytes, &mut counts.writes),
            false => (&mut counts.totals.read_bytes, &mut counts.reads),
        };
        *bytes = copied.bytes;
        operations.add(copied.bytes);
        self.record(&FileRecord::Closed(closed(file, copied.result != 0, &counts)), now_s);
        if self.logins.closed(&copied.client) {
            self.record(&FileRecord::Left(login), now_s);
        }
        self.copied
            .push(names::copy_record(&self.server, copied, self.wishes.personal_names));
        if self.copied.len() >= COPIES_MAX {
            self.flush_copies(now_s);
        }
    }

    fn record(&mut self, record: &FileRecord, now_s: u64) {
        if !self.batch.push(record) {
            self.flush_files(now_s);
            // Each record fits into an empty batch.
            let _ = self.batch.push(record);
        }
    }

    fn flush(&mut self, now_s: u64) {
        self.flushed_s = now_s;
        self.flush_files(now_s);
        self.flush_copies(now_s);
    }

    fn flush_files(&mut self, now_s: u64) {
        if !self.batch.is_empty() {
            let packet = self.batch.packet(&mut self.files, self.server.id, seconds(now_s));
            self.out.push(Datagram::Detail(packet));
        }
        self.batch = Batch::new(seconds(now_s));
    }

    fn flush_copies(&mut self, now_s: u64) {
        let (begin_s, end_s) = (seconds(self.copied_since_s), seconds(now_s));
        self.copied_since_s = now_s;
        let copied = std::mem::take(&mut self.copied);
        let mut rest = copied.as_slice();
        while !rest.is_empty() {
            let (packet, taken) = copy_packet(&mut self.copies, &self.server, begin_s, end_s, rest);
            self.out.push(Datagram::Copies(packet));
            rest = &rest[taken..];
        }
    }
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Reporter")
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}

fn closed(file: FileId, is_forced: bool, counts: &Counts) -> Closed {
    Closed {
        file,
        is_forced,
        totals: counts.totals,
        reads: counts.reads,
        vectors: counts.vectors,
        segments: counts.segments,
        segments_count: counts.segments_count,
        writes: counts.writes,
    }
}

/// Seconds as packets hold them, until 2106.
fn seconds(since_1970_s: u64) -> u32 {
    u32::try_from(since_1970_s).unwrap_or(u32::MAX)
}
