//! Load and space, as a manager gets them.

use xroot_wire::cms::{Load, Space};

use crate::machine;

const MIB: u64 = 1 << 20;

/// How busy a server is, and how much room it has. Loads are in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// Processors in use.
    pub processors: u8,
    /// Network in use.
    pub network: u8,
    /// Tasks that wait for a processor, in percent of the processors.
    pub runnable: u8,
    /// Memory in use.
    pub memory: u8,
    /// Time in which tasks waited for memory.
    pub paging: u8,
    /// Room in all, where there is the most room.
    pub total_bytes: u64,
    /// What new files may take there.
    pub free_bytes: u64,
}

/// Without space, which is that of the exports.
impl From<machine::Load> for Vitals {
    fn from(load: machine::Load) -> Self {
        let percent = |share: f64| (share * 100.0).clamp(0.0, 100.0) as u8;
        Self {
            processors: percent(load.processors),
            runnable: percent(load.runnable),
            memory: percent(load.memory),
            paging: percent(load.paging),
            ..Self::default()
        }
    }
}

impl Vitals {
    /// Free space in MiB, as much as the protocol can say.
    pub(super) fn free_mib(&self) -> u32 {
        mib(self.free_bytes)
    }

    /// All space in MiB; at least 1, as XRootD's servers do.
    pub(super) fn total_mib(&self) -> u32 {
        mib(self.total_bytes).max(1)
    }

    /// Space in use, in percent.
    pub(super) fn used_percent(&self) -> u8 {
        let used = self.total_bytes.saturating_sub(self.free_bytes);
        let percent = u128::from(used) * 100 / u128::from(self.total_bytes.max(1));
        u8::try_from(percent).unwrap_or(100).min(100)
    }

    pub(super) fn load(&self) -> Load {
        Load {
            processors: self.processors,
            network: self.network,
            runnable: self.runnable,
            memory: self.memory,
            paging: self.paging,
            disk: self.used_percent(),
            free_mib: self.free_mib(),
        }
    }

    pub(super) fn space(&self) -> Space {
        Space {
            free_mib: self.free_mib(),
            used_percent: self.used_percent().into(),
        }
    }
}

/// A number that managers read as signed.
fn mib(bytes: u64) -> u32 {
    u32::try_from(bytes / MIB)
        .unwrap_or(u32::MAX)
        .min(i32::MAX.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_said_in_percent() {
        let load = machine::Load {
            processors: 0.5,
            runnable: 1.0,
            memory: 0.999,
            paging: f64::NAN,
            disk_pressure: 1.0,
        };
        let vitals = Vitals::from(load);
        assert_eq!(
            (vitals.processors, vitals.runnable, vitals.memory, vitals.paging),
            (50, 100, 99, 0)
        );
    }

    #[test]
    fn space_is_said_in_mib_and_percent() {
        let vitals = Vitals {
            total_bytes: 1000 * MIB,
            free_bytes: 250 * MIB + 5_000,
            ..Vitals::default()
        };
        assert_eq!(
            (vitals.total_mib(), vitals.free_mib(), vitals.used_percent()),
            (1000, 250, 74)
        );
        assert_eq!(vitals.load().disk, 74);
        let huge = Vitals {
            total_bytes: u64::MAX,
            free_bytes: u64::MAX,
            ..Vitals::default()
        };
        assert_eq!((huge.free_mib(), huge.used_percent()), (0x7fff_ffff, 0));
        let none = Vitals::default();
        assert_eq!((none.total_mib(), none.free_mib(), none.used_percent()), (1, 0, 0));
    }
}
