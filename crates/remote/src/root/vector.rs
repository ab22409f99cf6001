//! Many small ranges of one file in few requests, as analysis programs read.

use crate::limits::ROOT_READS_MAX;
use net::frames::Expected;
use types::{ByteRange, ErrorCode, Phase, Result};
use xroot_wire::limits::{READV_ITEM_BYTES_MAX, READV_ITEMS_MAX};
use xroot_wire::request::{Close, ReadVector, VectorItem};
use xroot_wire::response::{ReadVectorDecoder, VectorPiece};
use xroot_wire::{FileHandle, Request, StreamId};

use super::ask::Client;
use super::route::Route;
use super::session::{Event, Reply, ServerSession};
use super::verdict::refused;
use crate::protocol::{Boxed, Pending};
use crate::ranges::{RangeReader, check_total};
use crate::resource::{Facts, Resource};

/// A file that is open for reading ranges of it.
pub(crate) struct Ranges {
    client: Client,
    /// `None` after an error.
    session: Option<ServerSession>,
    route: Route,
    handle: FileHandle,
    facts: Facts,
}

impl Client {
    /// Opens a file for reading ranges of it.
    ///
    /// # Errors
    /// `is_directory`, or another refusal.
    pub(crate) async fn open_ranges(&self, file: &Resource) -> Result<Ranges> {
        let opened = self.open_file(file).await?;
        Ok(Ranges {
            client: self.clone(),
            session: Some(opened.session),
            route: opened.route,
            handle: opened.handle,
            facts: opened.facts,
        })
    }
}

impl RangeReader for Ranges {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The server refuses a range behind the file's end.
    fn read<'a>(&'a mut self, ranges: &'a [ByteRange]) -> Pending<'a, Vec<Vec<u8>>> {
        Box::pin(async move {
            check_total(ranges, &self.route.at)?;
            let Some(mut session) = self.session.take() else {
                return Err(self.route.at.error(ErrorCode::PeerClosed, Phase::Transfer));
            };
            let mut reading = Reading::new(self.handle, ranges);
            // After an error the session is lost: its state is unknown.
            let read = reading.run(&mut session, &self.route.at).await;
            read.map_err(|error| self.route.at.blame(error))?;
            self.session = Some(session);
            Ok(reading.content)
        })
    }

    /// Returns the session to the pool.
    fn close(mut self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(async move {
            let close = Request::Close(Close { handle: self.handle });
            if let Some(mut session) = self.session.take()
                && session.send_unheard(&close).await.is_ok()
            {
                self.client.keep(&self.route, session);
            }
        })
    }
}

/// One piece of a range, small enough for one item of a request.
#[derive(Clone, Copy)]
struct Piece {
    item: VectorItem,
    /// The index of its range.
    range: usize,
}

/// A request under way.
struct Asked {
    id: StreamId,
    /// Its pieces, by their indices.
    first: usize,
    count: usize,
    decoder: ReadVectorDecoder,
    /// The range of the data that come now.
    range: usize,
}

struct Reading {
    pieces: Vec<Piece>,
    /// The first piece that is not requested yet.
    next: usize,
    asked: Vec<Asked>,
    content: Vec<Vec<u8>>,
}

impl Reading {
    fn new(handle: FileHandle, ranges: &[ByteRange]) -> Self {
        let mut pieces = Vec::with_capacity(ranges.len());
        for (number, range) in ranges.iter().enumerate() {
            let mut left = *range;
            while !left.is_empty() {
                let part = left.take_front(READV_ITEM_BYTES_MAX as u64);
                pieces.push(Piece {
                    item: VectorItem {
                        handle,
                        // At most `READV_ITEM_BYTES_MAX`.
                        length: part.len() as u32,
                        offset: part.start,
                    },
                    range: number,
                });
            }
        }
        let content = ranges.iter().map(|range| Vec::with_capacity(range.len() as usize));
        Self {
            content: content.collect(),
            pieces,
            next: 0,
            asked: Vec::new(),
        }
    }

    async fn run(&mut self, session: &mut ServerSession, file: &Resource) -> Result<()> {
        loop {
            self.ask_more(session).await?;
            if self.asked.is_empty() {
                return Ok(());
            }
            match session.event().await? {
                Event::Body { id, length, last } => self.receive(session, id, length, last).await?,
                Event::Reply(_, Reply::Refused(refusal)) => {
                    let error = refused(file, &refusal, session.is_encrypted());
                    return Err(error.in_phase(Phase::Transfer));
                }
                _ => return Err(session.misbehaved("this is no answer to a vector read")),
            }
        }
    }

    async fn ask_more(&mut self, session: &mut ServerSession) -> Result<()> {
        let mut has_asked = false;
        while self.asked.len() < ROOT_READS_MAX && self.next < self.pieces.len() {
            let end = self.pieces.len().min(self.next + READV_ITEMS_MAX);
            let items = &self.pieces[self.next..end];
            let list: Vec<u8> = items.iter().flat_map(|piece| piece.item.encode()).collect();
            let request = ReadVector::new(0, &list).map_err(types::Error::from)?;
            self.asked.push(Asked {
                id: session.queue(&Request::ReadVector(request)),
                first: self.next,
                count: end - self.next,
                decoder: ReadVectorDecoder::new(),
                range: 0,
            });
            self.next = end;
            has_asked = true;
        }
        if has_asked {
            session.frames.stream.flush().await
        } else {
            Ok(())
        }
    }

    /// Receives a part of an answer.
    async fn receive(&mut self, session: &mut ServerSession, id: StreamId, length: usize, last: bool) -> Result<()> {
        let wrong = |session: &ServerSession| Err(session.misbehaved("other ranges came than were asked for"));
        let Some(at) = self.asked.iter().position(|asked| asked.id == id) else {
            return wrong(session);
        };
        let asked = &mut self.asked[at];
        let mut expected = Expected::new(length as u64);
        while let Some(batch) = expected.next(&mut session.frames).await? {
            for mut input in batch.slices() {
                while let Some(part) = asked.decoder.next(&mut input)? {
                    match part {
                        VectorPiece::Head { number, item } => {
                            let piece = self.pieces[asked.first..][..asked.count].get(number);
                            let Some(piece) = piece.filter(|piece| piece.item == item) else {
                                return wrong(session);
                            };
                            asked.range = piece.range;
                        }
                        VectorPiece::Data(data) => self.content[asked.range].extend_from_slice(data),
                    }
                }
            }
        }
        if last {
            let is_whole = asked.decoder.is_between_items() && asked.decoder.item_count() == asked.count;
            self.asked.swap_remove(at);
            if !is_whole {
                return wrong(session);
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Ranges {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Ranges({})", self.route.at.location)
    }
}
