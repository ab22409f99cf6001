//! What a verified bearer token adds to the cost of a request.
//!
//! Requests with and without the token alternate on kept TLS connections, so that a busy machine
//! slows both. The server logs each request, as by default, and logs more of one with a token.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use testkit::{Access, Error, Result};

use crate::handshake::Target;
use crate::server::Server;
use crate::summary::Summary;
use crate::workload::{Bench, Sample};

/// Connections at the same time.
const CLIENTS: usize = 4;
/// Turns in one sample, so many that some which the machine disturbs do not show in their median.
pub(crate) const TURNS: u32 = 15;
/// Time of one turn. Shorter than loads elsewhere: two that are compared should see the same
/// machine.
const TURN_TIME: Duration = Duration::from_millis(400);

/// What requests with a token are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Requests without any credential.
    Nothing,
    /// The same with a header of the token's length that means nothing.
    HeaderAsLong,
}

impl Beside {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::HeaderAsLong => "another header as long",
        }
    }
}

/// What some requests cost.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    requests: f64,
    seconds: f64,
    /// Processor time of the server.
    cpu_seconds: f64,
}

impl Cost {
    /// Of payload: what is divided by is gigabytes.
    pub(crate) fn of_data(gigabytes: f64, cpu_seconds: f64) -> Self {
        Self {
            requests: gigabytes,
            seconds: 0.0,
            cpu_seconds,
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
    }

    fn rate(self) -> f64 {
        self.requests / self.seconds
    }

    pub(crate) fn cpu_of_one(self) -> f64 {
        self.cpu_seconds / self.requests
    }
}

impl Bench {
    /// Requests per second without a token divided by those with one that was verified before; and
    /// the server's processor time of one with divided by that of one without. The first is the
    /// median of turns, each beside the one before it; the second, which is counted in hundredths
    /// of a second, is of all turns together.
    pub(crate) fn token(&mut self, beside: Beside) -> Result<Sample> {
        let (mut server, token) = self.lab.start_with_issuer(Access::Read)?;
        self.lab.plant(&server, "file", 0)?;
        let other = match beside {
            Beside::Nothing => String::new(),
            Beside::HeaderAsLong => format!("X-Padding: Bearer {token}\r\n"),
        };
        let headers = [other, format!("Authorization: Bearer {token}\r\n")];
        let (mut rates, mut sums) = (Vec::new(), [Cost::default(); 2]);
        for _ in 0..TURNS {
            let mut turn = [Cost::default(); 2];
            for (index, header) in headers.iter().enumerate() {
                turn[index] = self.cost_of_requests(&mut server, "HEAD", header)?;
                sums[index].add(turn[index]);
            }
            rates.push(turn[0].rate() / turn[1].rate());
        }
        Ok(Sample {
            first: Summary::of(&rates).map_or(f64::NAN, |rates| rates.median),
            second: sums[1].cpu_of_one() / sums[0].cpu_of_one(),
        })
    }

    pub(crate) fn cost_of_requests(&self, server: &mut Server, method: &str, header: &str) -> Result<Cost> {
        let target = Target::keeping(server, &self.lab.ca_file(), "file", header)?.with_method(method);
        // Verifies the token, and makes everything warm.
        ask_for(&target, Duration::ZERO)?;
        let (before, began) = (server.process().cpu_seconds()?, Instant::now());
        let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| scope.spawn(|| ask_for(&target, TURN_TIME)))
                .collect();
            let gone = || Err(Error::Failed("a client panicked".to_owned()));
            clients
                .into_iter()
                .map(|client| client.join().unwrap_or_else(|_| gone()))
                .collect()
        });
        Ok(Cost {
            requests: counts.into_iter().sum::<Result<u64>>()? as f64,
            seconds: began.elapsed().as_secs_f64(),
            cpu_seconds: server.process().cpu_seconds()? - before,
        })
    }
}

/// One request after the other on one connection; at least one. Returns how many.
fn ask_for(target: &Target, time: Duration) -> Result<u64> {
    let mut stream = target.connect()?;
    let mut answer = vec![0; 16 * 1024];
    let (begin, mut count) = (Instant::now(), 0);
    loop {
        stream.write_all(target.request().as_bytes())?;
        let mut filled = 0;
        while !answer[..filled].ends_with(b"\r\n\r\n") {
            match stream.read(&mut answer[filled..])? {
                0 => return Err(Error::Failed("the server hung up".to_owned())),
                more => filled += more,
            }
        }
        crate::handshake::expect_success(&answer[..filled])?;
        count += 1;
        if begin.elapsed() >= time {
            return Ok(count);
        }
    }
}
