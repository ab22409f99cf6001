//! What this machine's socket buffers allow to be under way on one connection (tcp(7), the kernel's
//! `ip-sysctl`).

use std::fs;

/// The largest sizes to which the kernel lets the buffers of a TCP socket grow by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffers {
    /// `net.ipv4.tcp_rmem`, the third number, in bytes.
    receive_bytes: u64,
    /// `net.ipv4.tcp_wmem`, the third number, in bytes.
    send_bytes: u64,
    /// `net.ipv4.tcp_adv_win_scale`: which part of a receive buffer is offered as the window.
    window_scale: i32,
    /// `net.core.rmem_max`: the most that a program may ask for itself, in bytes.
    asked_bytes: u64,
}

impl Buffers {
    /// Of this machine; `None` where `/proc` does not tell.
    pub(super) fn here() -> Option<Self> {
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).ok();
        Self::parse(
            &read("ipv4/tcp_rmem")?,
            &read("ipv4/tcp_wmem")?,
            read("ipv4/tcp_adv_win_scale").as_deref().unwrap_or("1"),
            &read("core/rmem_max")?,
        )
    }

    fn parse(receive: &str, send: &str, scale: &str, asked: &str) -> Option<Self> {
        let third = |text: &str| text.split_whitespace().nth(2)?.parse::<u64>().ok();
        Some(Self {
            receive_bytes: third(receive)?,
            send_bytes: third(send)?,
            window_scale: scale.trim().parse().ok()?,
            asked_bytes: asked.trim().parse().ok()?,
        })
    }

    /// The most that the receiver offers: the rest of its buffer is for what the kernel itself
    /// needs.
    fn receive_window_bytes(&self) -> u64 {
        let shift = self.window_scale.unsigned_abs().min(31);
        match self.window_scale {
            1.. => self.receive_bytes - (self.receive_bytes >> shift),
            _ => self.receive_bytes >> shift,
        }
    }

    /// The most that can be under way: what the receiver offers and the sender may keep until it is
    /// acknowledged.
    pub(super) fn window_bytes(&self) -> u64 {
        self.receive_window_bytes().min(self.send_bytes).max(1)
    }

    /// All this in a sentence.
    pub(super) fn words(&self) -> String {
        let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        format!(
            "The socket buffers of this machine allow {} of a connection to be under way: a receiver offers at most {} \
             (net.ipv4.tcp_rmem ends at {}, net.ipv4.tcp_adv_win_scale is {}), a sender keeps at most {} \
             (net.ipv4.tcp_wmem). A program that sets the size of its buffer itself gets at most {} (net.core.rmem_max).",
            mib(self.window_bytes()),
            mib(self.receive_window_bytes()),
            mib(self.receive_bytes),
            self.window_scale,
            mib(self.send_bytes),
            mib(self.asked_bytes),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(receive: &str, send: &str, scale: &str) -> Buffers {
        Buffers::parse(receive, send, scale, "212992\n").unwrap()
    }

    #[test]
    fn the_smaller_of_what_is_offered_and_kept_counts() {
        let usual = parsed("4096\t131072\t6291456\n", "4096\t16384\t4194304\n", "1\n");
        assert_eq!(usual.window_bytes(), 3 << 20);
        let large = parsed("4096 131072 33554432", "4096 16384 4194304", "1");
        assert_eq!(large.window_bytes(), 4 << 20);
        let words = usual.words();
        assert!(
            words.contains("allow 3.0 MiB") && words.contains("ends at 6.0 MiB"),
            "{words}"
        );
    }

    #[test]
    fn the_scale_takes_from_the_buffer_or_leaves_a_part_of_it() {
        let send = "1 2 999999999";
        for (scale, window) in [("2", 750), ("0", 1000), ("-2", 250), ("1", 500)] {
            assert_eq!(parsed("1 2 1000", send, scale).window_bytes(), window, "{scale}");
        }
        assert_eq!(Buffers::parse("4096", "1 2 3", "1", "1"), None);
    }

    #[test]
    fn this_machine_tells() {
        assert!(Buffers::here().is_some_and(|buffers| buffers.window_bytes() >= 4096));
    }
}
