//! What all connections of a door share.

use std::time::Instant;

use endpoint::Gate;

use crate::capability_uses::CapabilityUses;
use crate::gsi::Gsi;
use crate::interrupted::InterruptedUploads;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::writers::Writers;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) gate: Gate,
    pub(crate) sessions: Sessions,
    pub(crate) writers: Writers,
    pub(crate) interrupted: InterruptedUploads,
    pub(crate) gsi: Gsi,
    pub(crate) capability_uses: CapabilityUses,
}

impl Shared {
    /// A door that has no connections yet.
    pub(crate) fn new(mut settings: Settings) -> Self {
        settings.site.keep_a_checksum();
        Self {
            settings,
            gate: Gate::default(),
            sessions: Sessions::default(),
            writers: Writers::default(),
            interrupted: InterruptedUploads::new(Instant::now()),
            gsi: Gsi::default(),
            capability_uses: CapabilityUses::default(),
        }
    }
}
