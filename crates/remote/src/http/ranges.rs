//! Many small ranges of one file in few requests (RFC 9110 §14.2), as analysis programs read over
//! HTTP.
//!
//! Servers may join ranges, reorder them, or send the whole file instead. So each piece is placed
//! by the offset that the answer names.

use crate::limits::{RANGES_GAP_BYTES_MAX, RANGES_VALUE_BYTES_MAX};
use http_wire::{Method, MultipartDecoder, MultipartPiece, RequestBuilder};
use types::limits::RANGE_COUNT_MAX;
use types::{ByteRange, ErrorCode, Phase, Result};

use super::answer::Answer;
use super::client::Client;
use super::download::HEAD_ASKED;
use super::exchange::{Ask, Body, Hop};
use crate::protocol::{Boxed, Pending};
use crate::ranges::{RangeReader, check_total};
use crate::resource::{Facts, Resource, Validator};

/// Reads ranges of one file. Between two reads its connection is in the pool.
pub(crate) struct Ranges {
    client: Client,
    /// The file after the redirects of the first request.
    file: Resource,
    facts: Facts,
}

impl Client {
    /// Asks what a file is, to read ranges of it.
    ///
    /// # Errors
    /// The server's refusal, or an answer that cannot be understood.
    pub(crate) async fn open_ranges(&self, file: &Resource) -> Result<Ranges> {
        let headers = |request: RequestBuilder, _: &Hop<'_>| request.accept_file();
        let ask = Ask {
            method: Method::Head,
            headers: &headers,
            body: Body::Nothing,
        };
        let answer = self.ask(file, &ask).await?;
        let answer = self.check_content(answer, file, HEAD_ASKED).await?.success().await?;
        let ranges = Ranges {
            client: self.clone(),
            file: answer.file.clone(),
            facts: Facts::of(&answer.head, &answer.file),
        };
        answer.release();
        Ok(ranges)
    }
}

impl Ranges {
    async fn read_at_once(&self, ranges: &[ByteRange], content: &mut [Vec<u8>]) -> Result<()> {
        let mut placing = Placing::new(ranges, content);
        if placing.is_complete() {
            return Ok(());
        }
        let validator = self.facts.validator();
        let wanted = || ranges.iter().copied().filter(|range| !range.is_empty());
        let headers = |request: RequestBuilder, _: &Hop<'_>| match &validator {
            Some(Validator::Tag(tag)) => request.accept_file().ranges(wanted()).if_match(tag),
            _ => request.accept_file().ranges(wanted()),
        };
        let ask = Ask {
            method: Method::Get,
            headers: &headers,
            body: Body::Nothing,
        };
        let mut answer = self.client.ask(&self.file, &ask).await?;
        if let Some(coding) = answer.head.content_coding() {
            return Err(answer.misbehaved(format!("the content is encoded ({coding})")));
        }
        match answer.head.status {
            206 => {}
            200 if answer
                .head
                .content_length()
                .is_some_and(|length| length <= 2 * placing.wanted_bytes) => {}
            200 => {
                let error = answer.file.error(ErrorCode::PeerUnsupported, Phase::Open);
                return Err(error.with_detail("it sends the whole file instead of many ranges"));
            }
            412 | 416 => return Err(answer.refused_as(ErrorCode::SourceChanged).await),
            201..400 => return Err(answer.misbehaved("this is no answer to a request for ranges")),
            _ => return Err(answer.refused().await),
        }
        if validator.is_some_and(|validator| validator.contradicts(&Facts::of(&answer.head, &answer.file))) {
            return Err(answer.file.error(ErrorCode::SourceChanged, Phase::Open));
        }
        gather(&mut answer, &mut placing).await?;
        if !placing.is_complete() {
            let error = answer.file.error(ErrorCode::PeerSizeDiffers, Phase::Transfer);
            return Err(error.with_detail("not all of the ranges came"));
        }
        answer.release();
        Ok(())
    }
}

impl RangeReader for Ranges {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Long lists become several requests, one after the other. `peer_unsupported` when the server
    /// sends a whole file that is much longer.
    fn read<'a>(&'a mut self, ranges: &'a [ByteRange]) -> Pending<'a, Vec<Vec<u8>>> {
        Box::pin(async move {
            check_total(ranges, &self.file)?;
            let content = ranges.iter().map(|range| Vec::with_capacity(range.len() as usize));
            let mut content: Vec<Vec<u8>> = content.collect();
            let (mut ranges, mut places) = (ranges, content.as_mut_slice());
            while !ranges.is_empty() {
                let count = fitting(ranges);
                let (now, later) = ranges.split_at(count);
                let (here, there) = places.split_at_mut(count);
                self.read_at_once(now, here).await?;
                (ranges, places) = (later, there);
            }
            Ok(content)
        })
    }

    /// Between two reads the connection is in the pool.
    fn close(self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(async {})
    }
}

/// How many of the ranges fit into one request.
fn fitting(ranges: &[ByteRange]) -> usize {
    let digits = |number: u64| number.checked_ilog10().unwrap_or(0) as usize + 1;
    let mut bytes = 0;
    let fitting = ranges.iter().take(RANGE_COUNT_MAX).take_while(|range| {
        bytes += digits(range.start) + digits(range.end) + 2;
        bytes <= RANGES_VALUE_BYTES_MAX
    });
    fitting.count().max(1)
}

/// Reads the body and puts its bytes where they belong.
async fn gather(answer: &mut Answer, placing: &mut Placing<'_>) -> Result<()> {
    let mut decoder = answer.head.multipart_boundary().map(MultipartDecoder::new);
    if decoder.is_none() {
        let part = match answer.head.status {
            200 => answer.head.content_length().map(ByteRange::whole),
            _ => answer.head.content_range().and_then(|part| part.range),
        };
        let begun = part.is_some_and(|range| placing.begin(range));
        if !begun {
            return Err(answer.misbehaved("the answer does not say which of the ranges it holds"));
        }
    }
    while let Some(batch) = answer.next().await? {
        for mut input in batch.slices() {
            let Some(decoder) = &mut decoder else {
                placing.put(input);
                continue;
            };
            while let Some(piece) = decoder.next(&mut input).map_err(|error| answer.file.blame(error))? {
                match piece {
                    MultipartPiece::Data(data) => placing.put(data),
                    MultipartPiece::Part(range) if placing.begin(range) => {}
                    MultipartPiece::Part(_) => return Err(answer.misbehaved("other ranges came than were asked for")),
                }
            }
        }
    }
    Ok(())
}

/// Copies incoming bytes to the ranges that they belong to.
struct Placing<'a> {
    ranges: &'a [ByteRange],
    content: &'a mut [Vec<u8>],
    wanted_bytes: u64,
    /// How many unrequested bytes may still come.
    excess_bytes: u64,
    /// The first range without a part so far, when parts come in order.
    next: usize,
    /// The ranges that overlap with the current part.
    concerned: Vec<usize>,
    /// Where in the file the next byte lies.
    offset: u64,
}

impl<'a> Placing<'a> {
    fn new(ranges: &'a [ByteRange], content: &'a mut [Vec<u8>]) -> Self {
        let wanted_bytes = ranges.iter().map(ByteRange::len).sum();
        Self {
            ranges,
            content,
            wanted_bytes,
            excess_bytes: wanted_bytes + ranges.len() as u64 * RANGES_GAP_BYTES_MAX,
            next: 0,
            concerned: Vec::new(),
            offset: 0,
        }
    }

    /// A part begins. False when none of it was requested, or far too much comes.
    fn begin(&mut self, part: ByteRange) -> bool {
        self.offset = part.start;
        self.concerned.clear();
        while self.ranges.get(self.next).is_some_and(ByteRange::is_empty) {
            self.next += 1;
        }
        if self.ranges.get(self.next) == Some(&part) {
            self.concerned.push(self.next);
            self.next += 1;
            return true;
        }
        let overlaps = |range: &ByteRange| range.start.max(part.start) < range.end.min(part.end);
        let concerned = (0..self.ranges.len()).filter(|number| overlaps(&self.ranges[*number]));
        self.concerned.extend(concerned);
        let useful: u64 = self.concerned.iter().map(|number| self.ranges[*number].len()).sum();
        let excess = part.len().saturating_sub(useful);
        let is_bearable = excess <= self.excess_bytes;
        self.excess_bytes = self.excess_bytes.saturating_sub(excess);
        is_bearable && !self.concerned.is_empty()
    }

    fn put(&mut self, data: &[u8]) {
        let end = self.offset + data.len() as u64;
        for number in &self.concerned {
            let (range, content) = (self.ranges[*number], &mut self.content[*number]);
            let wanted = range.start + content.len() as u64;
            if wanted >= self.offset && wanted < end.min(range.end) {
                let within = |at: u64| (at - self.offset) as usize;
                content.extend_from_slice(&data[within(wanted)..within(end.min(range.end))]);
            }
        }
        self.offset = end;
    }

    fn is_complete(&self) -> bool {
        let mut pairs = self.ranges.iter().zip(self.content.iter());
        pairs.all(|(range, content)| range.len() == content.len() as u64)
    }
}

impl std::fmt::Debug for Ranges {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Ranges({})", self.file.location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_ranges_go_into_one_request_as_servers_take() {
        let small: Vec<_> = (0..2000).map(|at| ByteRange::new(at * 2, at * 2 + 1)).collect();
        assert_eq!(fitting(&small[..10]), 10);
        let far = ByteRange::new(u64::MAX - 2, u64::MAX - 1);
        assert_eq!(fitting(&vec![far; 2000]), RANGES_VALUE_BYTES_MAX / 42);
        let value: usize = small[..fitting(&small)]
            .iter()
            .map(|range| format!("{}-{},", range.start, range.end).len())
            .sum();
        assert!(value <= RANGES_VALUE_BYTES_MAX, "{value}");
    }

    #[test]
    fn parts_are_placed_by_their_offsets_joined_and_in_any_order() {
        let ranges = [(10, 20), (5, 8), (15, 30), (40, 40)].map(|(start, end)| ByteRange::new(start, end));
        let file: Vec<u8> = (0..100).collect();
        let mut content = vec![Vec::new(); ranges.len()];
        let mut placing = Placing::new(&ranges, &mut content);
        for part in [ByteRange::new(5, 8), ByteRange::new(9, 31)] {
            assert!(placing.begin(part));
            for byte in &file[part.start as usize..part.end as usize] {
                placing.put(&[*byte]);
            }
        }
        assert!(placing.is_complete());
        assert!(!placing.begin(ByteRange::new(50, 60)), "nobody asked for it");
        for (range, content) in ranges.iter().zip(&content) {
            assert_eq!(content, &file[range.start as usize..range.end as usize]);
        }
    }

    #[test]
    fn a_server_may_not_send_the_rest_of_the_world() {
        let ranges = [ByteRange::new(0, 10)];
        let mut content = vec![Vec::new()];
        assert!(!Placing::new(&ranges, &mut content).begin(ByteRange::new(0, 1 << 30)));
    }
}
