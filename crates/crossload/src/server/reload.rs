//! Reloads a changed configuration or certificate without a restart.
//!
//! If the new state is broken, the old one stays in use and the log says why. Existing connections
//! keep the rules under which they began.

use std::sync::PoisonError;

use config::{Changes, Sections as _};
use serde_json::json;

use super::subsystem::{self, Change};
use super::watch::Watch;
use super::{Server, configure, exposed, watch_named};
use crate::failure::{Failure, Reader};
use crate::token::now_s;

impl Server {
    /// Reads the configuration and its files again.
    pub(super) fn reload(&mut self, why: &str) {
        self.service_manager.reloading();
        let outcome = self.try_reload();
        {
            let mut state = self.reload_state.lock().unwrap_or_else(PoisonError::into_inner);
            let fault = outcome.as_ref().err();
            state.fault = fault.map(|failure| failure.message(Reader::Administrator));
            if state.fault.is_none() {
                state.loaded_s = now_s();
            }
        }
        match outcome {
            Ok(()) => {
                let read = &self.configuration.read_from;
                self.log.write("reloaded", &json!({"why": why, "configuration": read}));
                self.assembly.certificate.tell_expiry(&self.log);
                self.service_manager.ready(&self.status());
            }
            Err(failure) => {
                self.metrics.reload_failed();
                let kept = "the old configuration stays in use";
                let error = failure.message(Reader::Administrator);
                self.service_manager
                    .ready(&format!("the last reload failed, and {kept}: {error}"));
                self.log
                    .write("reload_failed", &json!({"why": why, "error": error, "kept": kept}));
            }
        }
    }

    fn try_reload(&mut self) -> Result<(), Failure> {
        // Made before reading, so that the next check notices changes during the reload.
        let mut watch = Watch::default();
        self.options
            .config
            .iter()
            .for_each(|file| watch.add_configuration(file));
        let mut fresh = configure(&self.options)?;
        exposed::refuse(&fresh, self.options.config.as_deref())?;
        watch_named(&mut watch, &fresh);
        let changes = Changes::new(&self.configuration, &fresh, &self.watch.touched());
        fresh.keep_fixed(&self.configuration);
        let change = Change {
            old: &self.configuration,
            fresh: &fresh,
            keys: &changes,
        };
        subsystem::renew(self.parts(), &change)?;
        watch.take_made();
        for place in changes.ignored() {
            self.log.write(
                "reload_ignored",
                &json!({"key": place.name(), "says": "this key needs a restart"}),
            );
        }
        self.watch = watch;
        self.configuration = fresh;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::{Configuration, KeyPath};

    use super::*;

    #[test]
    fn addresses_stay_and_limits_change() {
        let old = Configuration::defaults();
        let mut fresh = Configuration::defaults();
        fresh.server.listen = Vec::new();
        fresh.server.core_dumps = true;
        fresh.limits.attempts = 7;
        let changes = Changes::new(&old, &fresh, &[]);
        let ignored: Vec<String> = changes.ignored().map(KeyPath::name).collect();
        assert_eq!(ignored, ["server.listen", "server.core_dumps"]);
        assert!(changes.need_new_door() && changes.concern("limits") && !changes.concern("tpc"));
        fresh.keep_fixed(&old);
        assert_eq!(fresh.server, old.server);
        fresh.limits.attempts = old.limits.attempts;
        fresh.limits.connections = 7;
        assert!(!Changes::new(&old, &fresh, &[]).need_new_door(), "shares have no door");
    }

    #[test]
    fn a_new_secret_asks_for_a_new_door_and_a_new_authdb_does_not() {
        let text = "[macaroons]\nsecret_file = \"s\"\nold_secret_files = [\"o\"]\n[policy]\nauthdb_file = \"a\"\n";
        let configuration = Configuration::parse(text, Path::new("/etc"), "test").unwrap();
        let touched = |file: &str| Changes::new(&configuration, &configuration, &[Path::new("/etc").join(file)]);
        assert!(touched("s").need_new_door() && touched("s").concern("macaroons"));
        assert!(!touched("o").need_new_door() && !touched("a").need_new_door());
        assert!(touched("a").concern("policy") && !touched("elsewhere").concern("policy"));
    }
}
