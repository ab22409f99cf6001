//! What is done in a round: uploads by several programs, pulls, pushes, third-party copies of the
//! XRootD protocol, downloads.

use super::fault::{Fault, Victim};
use crate::dice::Dice;
use crate::ledger::Named as _;

/// Who moves the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// curl uploads, with the checksum declared.
    Curl,
    /// curl uploads in pieces of unknown number.
    CurlChunked,
    /// xrdcp uploads.
    Xrdcp,
    /// Our own client uploads.
    Upload,
    /// The destination fetches (HTTP-TPC).
    Pull,
    /// The source sends (HTTP-TPC).
    Push,
    /// xrdcp orders a third-party copy of the XRootD protocol.
    RootCopy,
    /// Through our own client.
    Stream,
    /// Our own client downloads.
    Download,
}

/// What is done in a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) way: Way,
    /// Over TLS.
    pub(crate) sealed: bool,
    /// Over the XRootD protocol, where the way leaves a choice.
    pub(crate) root: bool,
    /// The destination exists.
    pub(crate) replaces: bool,
    pub(crate) size: usize,
    pub(crate) seed: u64,
}

const WAYS: [Way; 9] = [
    Way::Curl,
    Way::CurlChunked,
    Way::Xrdcp,
    Way::Upload,
    Way::Pull,
    Way::Push,
    Way::RootCopy,
    Way::Stream,
    Way::Download,
];
/// Around pages and buffers, and some that take a while.
const SIZES: [usize; 8] = [0, 1, 4_097, 70_000, 1 << 20, (2 << 20) + 5, 5_000_003, 6 << 20];
/// Where a fault is to meet the payload it needs some.
const LONG: [usize; 3] = [1 << 20, 5_000_003, 6 << 20];

impl Way {
    /// Whether a server is the source.
    pub(crate) fn has_source(self) -> bool {
        matches!(
            self,
            Self::Pull | Self::Push | Self::RootCopy | Self::Stream | Self::Download
        )
    }

    /// Whether a server is the destination.
    pub(crate) fn has_destination(self) -> bool {
        self != Self::Download
    }

    fn suits(self, fault: Fault) -> bool {
        match fault {
            Fault::None | Fault::KillClient => true,
            Fault::Kill(victim) | Fault::Stop(victim) | Fault::Cut(victim) => match victim {
                Victim::Source => self.has_source(),
                Victim::Destination => self.has_destination(),
            },
            // Where nothing tells the receiver what it should have got, no fault of its own is
            // found.
            Fault::Flip(Victim::Source) => self.has_source() && self != Self::Push,
            Fault::Flip(Victim::Destination) => matches!(self, Self::Curl | Self::Xrdcp),
            Fault::Full => self.has_destination() && self != Self::Push,
        }
    }
}

impl Operation {
    pub(crate) fn draw(dice: &mut Dice, fault: Fault) -> Self {
        let suitable: Vec<Way> = WAYS.into_iter().filter(|way| way.suits(fault)).collect();
        let way = dice.pick(&suitable);
        let sizes: &[usize] = if fault == Fault::None { &SIZES } else { &LONG };
        Self {
            way,
            sealed: dice.below(2) == 0,
            root: dice.below(2) == 0,
            replaces: dice.below(2) == 0,
            size: dice.pick(sizes),
            seed: dice.next(),
        }
    }

    /// The scheme with which a server is addressed.
    pub(crate) fn scheme(&self) -> &'static str {
        let root = match self.way {
            Way::Curl | Way::CurlChunked | Way::Pull | Way::Push => false,
            Way::Xrdcp | Way::RootCopy => true,
            Way::Upload | Way::Stream | Way::Download => self.root,
        };
        match (root, self.sealed) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "root",
            (true, true) => "roots",
        }
    }

    /// In words, for messages.
    pub(crate) fn words(&self, fault: Fault) -> String {
        let replaces = if self.replaces { ", replacing" } else { "" };
        format!(
            "{:?} over {} of {} bytes{replaces}, {}",
            self.way,
            self.scheme(),
            self.size,
            fault.name()
        )
    }
}
