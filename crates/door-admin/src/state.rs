//! What is true when monitoring asks: read anew each time, so that what is gone has no series.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use storage::{Space, VoUsage};

use crate::metrics::clamp;
use crate::process::Usage;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VersionLabels {
    version: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QuotaLabels {
    vo: String,
    path: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ExportLabels {
    export: String,
}

/// Figures of the trust store for client certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Trusted authorities.
    pub authorities: usize,
    /// Authorities with a revocation list.
    pub revocation_lists: usize,
    /// When the oldest of these lists was made, in seconds since 1970.
    pub oldest_list_s: Option<i64>,
    /// When the first of these lists is outdated, in seconds since 1970.
    pub next_update_s: Option<i64>,
    /// Files that are broken.
    pub faults: usize,
}

/// How reloads went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reload {
    /// Why the last one failed; `None` when it did not, or there was none.
    pub fault: Option<String>,
    /// When the configuration in use was loaded, in seconds since 1970.
    pub loaded_s: i64,
}

/// What is true now.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The exports by their paths.
    pub(crate) spaces: Vec<(String, Space)>,
    pub(crate) quotas: Vec<VoUsage>,
    /// When the server's certificate expires, in seconds since 1970.
    pub(crate) certificate_expiry_s: Option<i64>,
    pub(crate) reload: Option<Reload>,
    pub(crate) trust: Option<Trust>,
    pub(crate) process: Usage,
    pub(crate) tasks: usize,
    pub(crate) log_lines_dropped: u64,
}

impl State {
    /// As OpenMetrics, without the mark of the end.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut process = Registry::with_prefix("process");
        self.register_process(&mut process);
        let mut registry = Registry::with_prefix("crossload");
        self.register_server(&mut registry);
        self.register_trust(&mut registry);
        self.register_space(&mut registry);
        for registry in [process, registry] {
            // Writing into a text cannot fail.
            let _ = encode_registry(&mut text, &registry);
        }
        text
    }

    /// The names that all of Prometheus' client libraries have for these.
    fn register_process(&self, registry: &mut Registry) {
        let usage = &self.process;
        let help = "Processor time of this process, user and system";
        let cpu = ConstCounter::new(usage.cpu_s);
        registry.register_with_unit("cpu", help, Unit::Seconds, cpu);
        let help = "Resident memory of this process";
        registry.register_with_unit("resident_memory", help, Unit::Bytes, gauge(usage.resident_bytes));
        let help = "Virtual memory of this process";
        registry.register_with_unit("virtual_memory", help, Unit::Bytes, gauge(usage.virtual_bytes));
        registry.register("open_fds", "Open file descriptors", gauge(usage.descriptors));
        if let Some(limit) = usage.descriptors_max {
            registry.register("max_fds", "Most file descriptors that may be open", gauge(limit));
        }
        registry.register("threads", "Threads of this process", gauge(usage.threads));
        if let Some(start_s) = usage.start_s {
            let help = "Start of this process, in seconds since 1970";
            registry.register_with_unit("start_time", help, Unit::Seconds, ConstGauge::new(start_s));
        }
    }

    fn register_server(&self, registry: &mut Registry) {
        let version = env!("CARGO_PKG_VERSION");
        registry.register(
            "build",
            "The version of the program",
            Info::new(VersionLabels { version }),
        );
        registry.register("tasks", "Tasks that have not ended", gauge(self.tasks as u64));
        let dropped = ConstCounter::new(self.log_lines_dropped);
        let help = "Log lines dropped because the log was too slow";
        registry.register("log_lines_dropped", help, dropped);
        if let Some(end_s) = self.certificate_expiry_s {
            let help = "End of the server's certificate, in seconds since 1970";
            register_time(registry, "certificate_expiry", help, end_s);
        }
        if let Some(reload) = &self.reload {
            let help = "Whether the last reload succeeded, so that no older configuration is in use";
            let succeeded = gauge(u64::from(reload.fault.is_none()));
            registry.register("config_last_reload_successful", help, succeeded);
            let help = "When the configuration in use was loaded, in seconds since 1970";
            register_time(registry, "config_last_reload_success", help, reload.loaded_s);
        }
    }

    fn register_trust(&self, registry: &mut Registry) {
        let Some(trust) = self.trust else { return };
        let help = "Authorities trusted for client certificates";
        registry.register("authorities", help, gauge(trust.authorities as u64));
        let help = "Authorities with a revocation list";
        registry.register("revocation_lists", help, gauge(trust.revocation_lists as u64));
        let help = "Broken files of authorities, VOMS servers and mappings";
        registry.register("trust_faults", help, gauge(trust.faults as u64));
        if let Some(made_s) = trust.oldest_list_s {
            let help = "When the oldest revocation list was made, in seconds since 1970";
            register_time(registry, "revocation_list_oldest", help, made_s);
        }
        if let Some(end_s) = trust.next_update_s {
            let help = "When the first of the revocation lists is outdated, in seconds since 1970";
            register_time(registry, "revocation_list_next_update", help, end_s);
        }
    }

    fn register_space(&self, registry: &mut Registry) {
        let [total, free, used] = [(); 3].map(|()| Family::<ExportLabels, Gauge>::default());
        let known = self.spaces.iter();
        // A storage that tells no size.
        for (export, space) in known.filter(|(_, space)| clamp(space.total_bytes) < i64::MAX) {
            let labels = ExportLabels { export: export.clone() };
            total.get_or_create(&labels).set(clamp(space.total_bytes));
            free.get_or_create(&labels).set(clamp(space.free_bytes));
            used.get_or_create(&labels).set(clamp(space.used_bytes));
        }
        let help = "Size of the export's file system, or its quota";
        registry.register_with_unit("export_total", help, Unit::Bytes, total);
        let help = "Space for new files in the export";
        registry.register_with_unit("export_free", help, Unit::Bytes, free);
        let help = "Space that the export's files take, or, without a quota, what is used of its file system";
        registry.register_with_unit("export_used", help, Unit::Bytes, used);
        let [used, limit] = [(); 2].map(|()| Family::<QuotaLabels, Gauge>::default());
        for one in &self.quotas {
            let labels = QuotaLabels {
                vo: one.vo.to_string(),
                path: one.path.to_string(),
            };
            used.get_or_create(&labels).set(clamp(one.used_bytes));
            limit.get_or_create(&labels).set(clamp(one.limit_bytes));
        }
        let help = "Space that the files of a virtual organisation take of its quota";
        registry.register_with_unit("quota_used", help, Unit::Bytes, used);
        let help = "The quota of a virtual organisation";
        registry.register_with_unit("quota_limit", help, Unit::Bytes, limit);
    }
}

fn gauge(value: u64) -> ConstGauge {
    ConstGauge::new(clamp(value))
}

fn register_time(registry: &mut Registry, name: &str, help: &str, at_s: i64) {
    let name = format!("{name}_timestamp");
    registry.register_with_unit(name, help, Unit::Seconds, ConstGauge::new(at_s));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> State {
        State {
            spaces: vec![(
                "/data".to_owned(),
                Space {
                    total_bytes: 9,
                    free_bytes: 5,
                    used_bytes: 4,
                    quota_bytes: None,
                    device: None,
                },
            )],
            certificate_expiry_s: Some(1_900_000_000),
            reload: Some(Reload {
                fault: Some("broken".to_owned()),
                loaded_s: 1_800_000_000,
            }),
            trust: Some(Trust {
                oldest_list_s: Some(1_700_000_000),
                next_update_s: Some(1_850_000_000),
                ..Trust::default()
            }),
            process: crate::process::usage(),
            tasks: 3,
            ..State::default()
        }
    }

    #[test]
    fn every_metric_is_in_the_manual() {
        let manual = include_str!("../../../docs/metrics.md");
        let text = full().text();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let name = line.split(['{', ' ']).next().expect("a name");
            assert!(manual.contains(name), "{name} is not described in docs/metrics.md");
        }
        for line in [
            "crossload_certificate_expiry_timestamp_seconds 1900000000",
            "crossload_revocation_list_next_update_timestamp_seconds 1850000000",
            "crossload_config_last_reload_successful 0",
            "crossload_config_last_reload_success_timestamp_seconds 1800000000",
            "crossload_export_free_bytes{export=\"/data\"} 5",
            concat!("crossload_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1"),
        ] {
            assert!(text.lines().any(|have| have == line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_there_is_not_has_no_series() {
        let text = State::default().text();
        for name in ["certificate", "config", "authorities", "revocation", "export", "quota"] {
            assert!(!text.contains(&format!("crossload_{name}")), "{name}\n{text}");
        }
    }
}
