//! A client that asks for ranges of one file and takes the time of each.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::time::Instant;

use testkit::{Error, Result};

use crate::line::Line;
use crate::summary::Summary;

const RANGE_BYTES: u64 = 1 << 20;
/// Ranges of each server in a sample, asked in turns of so many.
const RANGES: usize = 200;
const TURN: usize = 20;
/// Longest line of a head.
const LINE_BYTES_MAX: u64 = 8192;

pub(super) struct Ranges {
    target: String,
    blocks: u64,
    /// State of xorshift64.
    random: u64,
    body: Vec<u8>,
}

impl Ranges {
    /// Of the file at `target`.
    pub(super) fn new(target: String, size_bytes: u64) -> Self {
        Self {
            target,
            blocks: size_bytes / RANGE_BYTES,
            random: 0x9E37_79B9_7F4A_7C15,
            body: vec![0; RANGE_BYTES as usize],
        }
    }

    /// The median time of two servers in milliseconds, each on one connection.
    pub(super) fn medians_ms(&mut self, ports: [u16; 2]) -> Result<[f64; 2]> {
        let mut times = [const { Vec::new() }; 2];
        let connect = |port| Ok::<_, Error>(BufReader::with_capacity(RANGE_BYTES as usize, Line::clear(port)?));
        let mut lines = [connect(ports[0])?, connect(ports[1])?];
        // The first requests open the file.
        lines.iter_mut().try_for_each(|line| self.ask(line).map(drop))?;
        for _ in 0..RANGES / TURN {
            for (line, times) in lines.iter_mut().zip(&mut times) {
                for _ in 0..TURN {
                    times.push(self.ask(line)?);
                }
            }
        }
        let median = |times: &[f64]| Summary::of(times).map_or(f64::NAN, |times| times.median);
        Ok([median(&times[0]), median(&times[1])])
    }

    /// Asks for one range, and returns the milliseconds until its last byte was there.
    fn ask(&mut self, line: &mut BufReader<Line>) -> Result<f64> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // Not at the edge of a block: readers of the field do not know blocks.
        let start = (self.random % (self.blocks - 1)) * RANGE_BYTES + 1000;
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: localhost\r\nRange: bytes={start}-{}\r\n\r\n",
            self.target,
            start + RANGE_BYTES - 1
        );
        let began = Instant::now();
        line.get_mut().write_all(request.as_bytes())?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if line.by_ref().take(LINE_BYTES_MAX).read_line(&mut head)? == 0 {
                return Err(Error::Failed(format!("the connection ended after {head:?}")));
            }
        }
        if !head.starts_with("HTTP/1.1 206") {
            return Err(Error::Failed(format!("a range is answered with {head:?}")));
        }
        line.read_exact(&mut self.body)?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }
}
