//! What a bearer token that was verified before adds to the cost of a request.
//!
//! Requests without any credential, with a header of the token's length that means nothing, and with the token come by
//! turns on kept TLS connections, so that a machine that grows busy does it to all of them. The server logs each request, as
//! it does by default, and so says more of one with a token.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use testkit::{Access, Error, Result};

use crate::handshake::Target;
use crate::server::Server;
use crate::workload::{Bench, Sample};

/// Connections at the same time.
const CLIENTS: usize = 4;
/// Turns in one sample.
const TURNS: u32 = 3;

impl Bench {
    /// The server's processor time for a request with a verified token, divided by that of one without, and by that of one
    /// with a header as long.
    pub(crate) fn token(&mut self) -> Result<Sample> {
        let (mut server, token) = self.lab.start_with_issuer(Access::Read)?;
        self.lab.plant(&server, "file", 0)?;
        let headers = [
            String::new(),
            format!("X-Padding: Bearer {token}\r\n"),
            format!("Authorization: Bearer {token}\r\n"),
        ];
        let mut sums = [0.0; 3];
        for _ in 0..TURNS {
            for (sum, header) in sums.iter_mut().zip(&headers) {
                *sum += self.cpu_of_request(&mut server, header)?;
            }
        }
        let [without, as_long, with] = sums;
        Ok(Sample {
            first: with / without,
            second: with / as_long,
        })
    }

    /// The server's processor seconds for each request.
    fn cpu_of_request(&self, server: &mut Server, header: &str) -> Result<f64> {
        let target = Target::keeping(server, &self.lab.ca_file(), "file", header)?;
        let time = Duration::from_secs(self.load_seconds.into()) / TURNS;
        // Verifies the token, and makes everything warm.
        ask_for(&target, Duration::ZERO)?;
        let before = server.process().cpu_seconds()?;
        let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| ask_for(&target, time))).collect();
            let gone = || Err(Error::Failed("a client panicked".to_owned()));
            clients
                .into_iter()
                .map(|client| client.join().unwrap_or_else(|_| gone()))
                .collect()
        });
        let used = server.process().cpu_seconds()? - before;
        let count = counts.into_iter().sum::<Result<u64>>()?;
        Ok(used / count as f64)
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
