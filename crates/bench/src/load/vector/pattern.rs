//! Which pieces of a file a program reads, and in which requests: recorded from a real one, or made
//! to be like one.
//!
//! A recorded pattern is text. Each line holds the offset and the length of one piece, in bytes, as
//! two decimal numbers with blanks between them. Pieces of one request stand in lines one behind
//! the other; an empty line ends the request. A line that begins with `#` is passed over.

use crate::limits::BENCH_PATTERN_PIECES_MAX;
use types::ByteRange;
use types::limits::VECTOR_READ_BYTES_MAX;

/// Sizes of the pieces of a made pattern.
const PIECE_BYTES_MIN: u64 = 4 << 10;
const PIECE_BYTES_MAX: u64 = 64 << 10;
/// Variables of an event that a made file holds, and how many in a hundred of them an analysis
/// reads.
const BRANCHES: u64 = 200;
const READ_PERCENT: u64 = 30;

/// The requests of an analysis, each with its pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    requests: Vec<Vec<ByteRange>>,
    /// Where it comes from.
    origin: &'static str,
}

impl Pattern {
    /// Reads a recorded pattern. With `pieces`, requests have so many pieces each, whatever the
    /// empty lines say.
    ///
    /// # Errors
    /// In words: a line that is no piece, no piece at all, more than [`BENCH_PATTERN_PIECES_MAX`]
    /// pieces, or a request for more than [`VECTOR_READ_BYTES_MAX`] bytes.
    pub fn parse(text: &str, pieces: Option<usize>) -> Result<Self, String> {
        let mut requests = vec![Vec::new()];
        let mut count = 0_usize;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() {
                requests.push(Vec::new());
            } else if !line.starts_with('#') {
                let piece = piece(line).ok_or_else(|| {
                    format!(
                        "line {}: \"{line}\" is no offset with a length, such as 1048576 8192",
                        number + 1
                    )
                })?;
                count += 1;
                if count > BENCH_PATTERN_PIECES_MAX {
                    return Err(format!("it has more than {BENCH_PATTERN_PIECES_MAX} pieces"));
                }
                if let Some(request) = requests.last_mut() {
                    request.push(piece);
                }
            }
        }
        if let Some(pieces) = pieces {
            requests = grouped(requests.concat(), pieces);
        }
        requests.retain(|request| !request.is_empty());
        let bytes = |request: &Vec<ByteRange>| request.iter().map(ByteRange::len).sum::<u64>();
        if requests.iter().any(|request| bytes(request) > VECTOR_READ_BYTES_MAX) {
            return Err(format!(
                "a request is for more than {VECTOR_READ_BYTES_MAX} bytes; divide it by an empty line"
            ));
        }
        match requests.is_empty() {
            true => Err("it has no pieces".to_owned()),
            false => Ok(Self {
                requests,
                origin: "recorded",
            }),
        }
    }

    /// A pattern like that of an analysis of a ROOT file of `size_bytes`. Such a file holds its
    /// variables in baskets of some KiB, those of the same events near to each other; an analysis
    /// needs some of the variables, and reads their baskets, many in a request, from the beginning
    /// of the file to its end. The same each time.
    #[must_use]
    pub fn made(size_bytes: u64, pieces: usize) -> Self {
        let mut dice = Dice(size_bytes);
        let branches: Vec<(u64, bool)> = (0..BRANCHES)
            .map(|_| (dice.basket_bytes(), dice.below(100) < READ_PERCENT))
            .collect();
        let (mut at, mut read) = (0, Vec::new());
        'file: loop {
            for (usual_bytes, is_read) in &branches {
                // Baskets of one variable differ a little, since they are compressed.
                let size = usual_bytes * (75 + dice.below(50)) / 100;
                let basket = ByteRange::new(at, at + size.clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX));
                if basket.end > size_bytes {
                    break 'file;
                }
                at = basket.end;
                if *is_read {
                    read.push(basket);
                }
            }
        }
        if read.is_empty() {
            read.push(ByteRange::whole(size_bytes.clamp(1, PIECE_BYTES_MIN)));
        }
        Self {
            requests: grouped(read, pieces),
            origin: "made to be like that of an analysis of a ROOT file",
        }
    }

    /// The requests.
    #[must_use]
    pub fn requests(&self) -> &[Vec<ByteRange>] {
        &self.requests
    }

    /// Least size of the file, in bytes.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.pieces().map(|piece| piece.end).max().unwrap_or(0)
    }

    fn pieces(&self) -> impl Iterator<Item = &ByteRange> {
        self.requests.iter().flatten()
    }

    /// What it is, in a sentence.
    #[must_use]
    pub fn words(&self) -> String {
        let sizes = || self.pieces().map(ByteRange::len);
        let (count, bytes) = (self.pieces().count(), sizes().sum::<u64>());
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        format!(
            "The pattern is {}: {count} pieces of {:.1} to {:.1} KiB, {:.1} on average, in {} requests; together {:.1} MB \
             of a file of {:.1} MB.",
            self.origin,
            kib(sizes().min().unwrap_or(0)),
            kib(sizes().max().unwrap_or(0)),
            kib(bytes) / count as f64,
            self.requests.len(),
            bytes as f64 / 1e6,
            self.end() as f64 / 1e6,
        )
    }
}

/// The piece that a line names: not empty.
fn piece(line: &str) -> Option<ByteRange> {
    let (offset, length) = line.split_once(char::is_whitespace)?;
    let (start, length): (u64, u64) = (offset.parse().ok()?, length.trim().parse().ok()?);
    let end = start.checked_add(length).filter(|end| *end > start)?;
    Some(ByteRange::new(start, end))
}

fn grouped(pieces: Vec<ByteRange>, count: usize) -> Vec<Vec<ByteRange>> {
    pieces.chunks(count.max(1)).map(<[ByteRange]>::to_vec).collect()
}

/// The same numbers each time (splitmix64, Steele and others 2014).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Small baskets are as frequent as large ones, by factors: most variables are small.
    fn basket_bytes(&mut self) -> u64 {
        let doubled = PIECE_BYTES_MIN << self.below(4);
        doubled + self.below(doubled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end)
    }

    #[test]
    fn empty_lines_end_requests_unless_pieces_are_counted() {
        let text = "# offset length\n0 10\n20\t5 \n\n\n100 1\n";
        let pattern = Pattern::parse(text, None).unwrap();
        assert_eq!(
            pattern.requests(),
            [vec![range(0, 10), range(20, 25)], vec![range(100, 101)]]
        );
        assert_eq!(pattern.end(), 101);
        let pattern = Pattern::parse(text, Some(1)).unwrap();
        assert_eq!(pattern.requests().len(), 3);
        assert_eq!(Pattern::parse(text, Some(5)).unwrap().requests().len(), 1);
    }

    #[test]
    fn what_is_no_piece_is_refused_with_its_line() {
        for text in ["0", "a b", "0 0", "-1 5", "18446744073709551615 1", "1 2 3", "1,2"] {
            let said = Pattern::parse(&format!("7 7\n{text}"), None).unwrap_err();
            assert!(said.starts_with("line 2: "), "{text}: {said}");
        }
        assert!(Pattern::parse("# nothing\n\n", None).is_err());
        let half = VECTOR_READ_BYTES_MAX / 2 + 1;
        assert!(Pattern::parse(&format!("0 {half}\n0 {half}"), None).is_err());
        assert!(Pattern::parse(&format!("0 {half}\n\n0 {half}"), None).is_ok());
    }

    #[test]
    fn a_made_pattern_goes_through_the_file_with_gaps_and_is_the_same_each_time() {
        let pattern = Pattern::made(64 << 20, 64);
        assert_eq!(pattern, Pattern::made(64 << 20, 64));
        let pieces: Vec<ByteRange> = pattern.pieces().copied().collect();
        assert!(pieces.windows(2).all(|two| two[0].end <= two[1].start), "in order");
        let gaps = pieces.windows(2).filter(|two| two[0].end < two[1].start).count();
        assert!(gaps > pieces.len() / 3, "{gaps} of {}", pieces.len());
        let sizes = pieces.iter().map(ByteRange::len);
        assert!(
            sizes
                .clone()
                .all(|size| (PIECE_BYTES_MIN..=PIECE_BYTES_MAX).contains(&size))
        );
        let share = sizes.sum::<u64>() as f64 / f64::from(64 << 20);
        assert!((0.15..0.45).contains(&share), "{share}");
        assert!(pattern.end() <= 64 << 20 && pattern.end() > 60 << 20);
        assert!(
            pattern
                .requests()
                .iter()
                .rev()
                .skip(1)
                .all(|request| request.len() == 64)
        );
        assert!(Pattern::made(100, 64).end() <= 100);
    }
}
