//! `crossload upgrade`: restarts running services with a new program, watches them, and goes back
//! to the previous program if one of them does not come up. Packages run it when they were
//! upgraded; what systemd does is asked of `systemctl`.

mod programs;
mod records;
mod services;
mod tables;

use crate::command_line::UpgradeOptions;
use crate::failure::Failure;
use programs::Program;
use records::Records;
use services::Service;
use tables::Tables;

/// Exit code after going back.
const WENT_BACK: u8 = 1;

/// Restarts the services. The exit code is 0 if all of them are up, and 1 if the previous program
/// is in use again.
///
/// # Errors
/// The program cannot be found, or the previous one cannot be put back.
pub(crate) fn run(options: &UpgradeOptions) -> Result<u8, Failure> {
    let own = std::env::current_exe().map_err(|cause| Failure::system("this program", &cause));
    let program = options.program.clone().map_or(own, Ok)?;
    let records = Records::at(&options.log);
    let upgrade = Upgrade {
        fresh: Program::at(program),
        previous: Program::at(options.previous.clone()),
        services: services::running(&options.unit, &records),
        options,
        records,
    };
    upgrade.run()
}

/// A service that was restarted, and the tables that it had before.
struct Restarted<'a> {
    service: &'a Service,
    tables: Option<Tables>,
}

struct Upgrade<'a> {
    options: &'a UpgradeOptions,
    fresh: Program,
    previous: Program,
    services: Vec<Service>,
    records: Records,
}

impl Upgrade<'_> {
    fn run(&self) -> Result<u8, Failure> {
        let (fresh, previous) = (self.fresh.version(), self.previous.version());
        if self.services.is_empty() {
            self.records.say("no service of Crossload runs: nothing to restart");
            return Ok(0);
        }
        for service in &self.services {
            if let Some(faults) = self.new_faults(service) {
                let why = format!("{fresh} refuses the configuration of {}:\n{faults}", service.unit);
                return self.go_back(service, &why, &[]);
            }
        }
        let mut restarted: Vec<Restarted<'_>> = Vec::new();
        for service in &self.services {
            let was_ready = service.is_ready(&self.fresh);
            let had_failed = service.has_failed();
            restarted.push(Restarted {
                service,
                tables: tables::of(service),
            });
            self.records
                .say(&format!("restarting {}: {previous} to {fresh}", service.unit));
            if let Err(why) = service.restart(&self.fresh, was_ready, self.options.watch) {
                let why = format!("{} is not up with {fresh}: {why}", service.unit);
                if had_failed {
                    self.records.say(&format!("{why}; it was not up before either"));
                    continue;
                }
                return self.go_back(service, &why, &restarted);
            }
            self.records.say(&format!("{} is up with {fresh}", service.unit));
        }
        Ok(0)
    }

    /// What the new program refuses in a configuration that the previous one takes.
    fn new_faults(&self, service: &Service) -> Option<String> {
        let config = service.config.as_deref()?;
        let credentials = service.credentials();
        let faults = self.fresh.refuses(config, &credentials)?;
        let is_new = !self.previous.exists() || self.previous.refuses(config, &credentials).is_none();
        is_new.then_some(faults)
    }

    /// Puts the previous program back, and restarts what was restarted, since a service failed.
    fn go_back(&self, failed: &Service, why: &str, restarted: &[Restarted<'_>]) -> Result<u8, Failure> {
        self.records.say(why);
        if !self.previous.exists() {
            self.records.say(&format!(
                "there is no previous program at {}: mend this, then run: systemctl restart {}",
                self.previous.path.display(),
                names(&self.services)
            ));
            return Ok(WENT_BACK);
        }
        // First, since a client at a socket of systemd starts a service that was stopped.
        self.previous.put_in_place_of(&self.fresh)?;
        restarted.iter().for_each(|one| one.service.stop());
        for one in restarted {
            if let Some(tables) = &one.tables
                && let Err(failure) = tables::go_back(tables)
            {
                let unit = &one.service.unit;
                let words = format!("the database of {unit} stays as it is: {}", failure.words);
                self.records.say(&words);
            }
        }
        let previous = self.previous.version();
        for Restarted { service, .. } in restarted {
            match service.start() {
                Ok(()) => self
                    .records
                    .say(&format!("{} is up with {previous} again", service.unit)),
                Err(why) => self.records.say(&format!("{} is down: {why}", service.unit)),
            }
        }
        self.records.say(&format!(
            "{} is {previous} again, although the package is newer. Find out why with journalctl -u {} and in {}, mend \
             it, and install the package once more: apt-get install --reinstall crossload, or dnf reinstall crossload",
            self.fresh.path.display(),
            failed.unit,
            self.options.log.display()
        ));
        Ok(WENT_BACK)
    }
}

fn names(services: &[Service]) -> String {
    let names: Vec<&str> = services.iter().map(|service| service.unit.as_str()).collect();
    names.join(" ")
}
