//! Taking over a changed configuration or certificate without a restart.
//!
//! A broken new state changes nothing: the old one stays in use and the log says why. Connections
//! in progress end under the rules under which they began.

use std::sync::PoisonError;

use serde_json::json;
use types::limits::OLD_DOOR_GRACE;

use super::watch::Watch;
use super::{Server, configure, exposed, watched};
use crate::configuration::Configuration;
use crate::failure::Failure;

impl Server {
    /// Reads everything again.
    pub(super) fn reload(&mut self, why: &str) {
        let outcome = self.try_reload();
        let fault = outcome.as_ref().err().map(|failure| failure.words.clone());
        *self.reload_fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        match outcome {
            Ok(()) => {
                self.log.write("reloaded", &json!({"why": why}));
                self.assembly.tell_expiry(&self.log);
            }
            Err(failure) => {
                self.metrics.reload_failed();
                let kept = "the old configuration stays in use";
                self.log.write(
                    "reload_failed",
                    &json!({"why": why, "error": failure.words, "kept": kept}),
                );
            }
        }
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        let mut fresh = configure(&self.options)?;
        exposed::refuse(&fresh, self.options.config.as_deref())?;
        for key in keep_fixed(&self.configuration, &mut fresh) {
            self.log.write(
                "reload_ignored",
                &json!({"key": key, "says": "this key takes a restart"}),
            );
        }
        self.assembly.renew(&fresh, &self.log)?;
        self.watch = Watch::new(watched(&self.options, &fresh));
        self.observer.set_wanted(&fresh.log);
        let new_door = needs_new_door(&self.configuration, &fresh);
        self.configuration = fresh;
        if new_door {
            self.replace_door()?;
        }
        Ok(())
    }

    /// New connections go to a door with the new settings; the old one ends those it has.
    fn replace_door(&mut self) -> Result<(), Failure> {
        let old = self.doors.first().cloned();
        self.open_door()?;
        if let Some(old) = old {
            tokio::spawn(async move { old.shut_down(OLD_DOOR_GRACE).await });
        }
        Ok(())
    }
}

/// Puts the old values back where a change takes a restart; returns the names of those keys.
fn keep_fixed(old: &Configuration, fresh: &mut Configuration) -> Vec<&'static str> {
    let mut ignored = Vec::new();
    macro_rules! fixed {
        ($($section:ident . $key:ident),+) => {
            $(if old.$section.$key != fresh.$section.$key {
                ignored.push(concat!(stringify!($section), ".", stringify!($key)));
                fresh.$section.$key = old.$section.$key.clone();
            })+
        };
    }
    fixed!(
        server.listen,
        server.admin_listen,
        server.worker_threads,
        server.blocking_threads,
        server.bulk_niceness,
        log.file
    );
    ignored
}

/// Whether something changed that a door holds for good. Secrets are compared by their files' names
/// only, so with macaroons every reload counts as a change.
fn needs_new_door(old: &Configuration, fresh: &Configuration) -> bool {
    let tls_changed = old.server.certificate.is_some() != fresh.server.certificate.is_some();
    tls_changed
        || old.limits != fresh.limits
        || old.tpc != fresh.tpc
        || old.macaroons != fresh.macaroons
        || fresh.macaroons.secret_file.is_some()
        || old.xroot != fresh.xroot
        || old.server.name != fresh.server.name
        || old.server.checksums != fresh.server.checksums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stay_and_limits_change() {
        let old = Configuration::defaults();
        let mut fresh = Configuration::defaults();
        fresh.server.listen = Vec::new();
        fresh.limits.connections = 7;
        assert_eq!(keep_fixed(&old, &mut fresh), ["server.listen"]);
        assert_eq!(fresh.server.listen, old.server.listen);
        assert!(needs_new_door(&old, &fresh));
        fresh.limits.connections = old.limits.connections;
        assert!(!needs_new_door(&old, &fresh));
    }
}
