//! Parts of the server that only pass on configuration: fair shares, log contents, marks of flows.

use std::sync::Arc;

use config::Configuration;

use super::events::Observer;
use super::subsystem::{Change, Ground, Renewal, Subsystem};
use crate::descriptors;
use crate::failure::Failure;

/// The fair share of each client.
pub(crate) struct Shares(Ground);

impl Subsystem for Shares {
    type Ground = Ground;

    fn build(ground: &Ground, configuration: &Configuration) -> Result<Self, Failure> {
        let this = Self(ground.clone());
        this.set(configuration);
        Ok(this)
    }

    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let fresh = change.fresh;
        Ok(Box::new(move || self.set(fresh)))
    }
}

impl Shares {
    fn set(&self, configuration: &Configuration) {
        let shares = descriptors::share_out(descriptors::limit(), &configuration.limits);
        self.0.fair_share.set_limits(&shares);
    }
}

/// The contents of the log, and the marks of flows.
pub(crate) struct Logged(Arc<Observer>);

impl Subsystem for Logged {
    type Ground = Ground;

    fn build(ground: &Ground, configuration: &Configuration) -> Result<Self, Failure> {
        ground.observer.set_wanted(configuration);
        Ok(Self(ground.observer.clone()))
    }

    fn renew<'a>(&'a self, change: &Change<'a>) -> Result<Renewal<'a>, Failure> {
        let wanted = change.fresh;
        Ok(Box::new(move || self.0.set_wanted(wanted)))
    }
}
