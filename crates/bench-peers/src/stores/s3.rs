//! An S3 bucket behind an export, and copies between two S3 servers.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Instant;

use testkit::{Error, Result, ended_children_cpu_seconds};

use super::fronts::{RCLONE_NO_WAIT, Role, rclone_remote};
use super::site::Objects;
use super::{TRANSFERS, Work, memory_bytes};
use crate::client::run_all;
use crate::clients::Program;
use crate::server::{Kind, adler32};
use crate::workload::{Bench, MIB, Sample};

/// What a piece of work took.
pub(super) struct Cost {
    /// Of the server in between.
    pub(super) sample: Sample,
    /// Of the server behind, and of the clients.
    pub(super) others: Sample,
}

impl Bench {
    /// GET of an object.
    pub(super) fn s3_get(&mut self, kind: Kind) -> Result<Sample> {
        let (size_bytes, key) = (self.size_bytes, "object");
        self.plant_object(key, size_bytes)?;
        let mut front = self.front(kind, Role::S3)?;
        let url = front.url(key);
        let cost = self.cost(&mut front, Work::S3Get, size_bytes, |bench| {
            bench.client.download(&[vec![url]])
        });
        self.put_front(kind, Role::S3, front);
        self.keep(kind, Work::S3Get, cost)
    }

    /// PUT of an object under a new name, which is compared and removed.
    pub(super) fn s3_put(&mut self, kind: Kind) -> Result<Sample> {
        let size_bytes = self.size_bytes;
        let (source, checksum) = self.lab.source(size_bytes)?;
        let key = self.stores.next_name("put");
        let mut front = self.front(kind, Role::S3)?;
        let url = front.url(&key);
        let cost = self.cost(&mut front, Work::S3Put, size_bytes, |bench| {
            bench.client.upload(&source, &[vec![url]])
        });
        self.put_front(kind, Role::S3, front);
        let taken = take_away(self.objects(0)?, &key, checksum);
        let sample = self.keep(kind, Work::S3Put, cost)?;
        taken.map(|()| sample)
    }

    /// What each of many transfers adds to the highest resident memory of a fresh server, in MiB;
    /// and that before.
    pub(super) fn transfer_memory(&mut self, kind: Kind, work: Work) -> Result<Sample> {
        let (size_bytes, key) = (memory_bytes(self.size_bytes), "memory");
        self.stores.fronts.remove(&(kind, work.role()));
        match work.is_s3() {
            true => self.plant_object(key, size_bytes)?,
            false => self.plant_at_origin(key, size_bytes)?,
        }
        let mut front = self.front(kind, work.role())?;
        let before = front.process().memory()?.resident_bytes as f64 / MIB;
        let (source, checksum) = self.lab.source(size_bytes)?;
        let names: Vec<String> = (0..TRANSFERS).map(|_| self.stores.next_name("memory")).collect();
        let connections = |names: &[String]| names.iter().map(|name| vec![front.url(name)]).collect::<Vec<_>>();
        let moved = match work {
            Work::S3Put => self.client.upload(&source, &connections(&names))?,
            _ => {
                let same = vec![key.to_owned(); names.len()];
                self.client.download(&connections(&same))?
            }
        };
        if moved != size_bytes * TRANSFERS {
            return Err(Error::Failed(format!("{moved} bytes were moved")));
        }
        let peak = front.process().memory()?.peak_bytes as f64 / MIB;
        if work == Work::S3Put {
            let objects = self.objects(0)?;
            names.iter().try_for_each(|name| take_away(objects, name, checksum))?;
        }
        Ok(Sample {
            first: (peak - before) / TRANSFERS as f64,
            second: before,
        })
    }

    /// A copy of one object between two servers by a client: MB/s, and its processor time.
    pub(super) fn s3_copy(&mut self, kind: Kind) -> Result<Sample> {
        let (size_bytes, key) = (self.size_bytes, "object");
        self.plant_object(key, size_bytes)?;
        let (_, checksum) = self.lab.source(size_bytes)?;
        let copy = self.stores.next_name("copy");
        self.objects(1)?;
        let command = self.copy_command(kind, key, &copy)?;
        let (before, began) = (ended_children_cpu_seconds()?, Instant::now());
        run_all([command])?;
        let elapsed = began.elapsed().as_secs_f64();
        let used = ended_children_cpu_seconds()? - before;
        take_away(self.objects(1)?, &copy, checksum)?;
        let bytes = size_bytes as f64;
        Ok(Sample {
            first: bytes / 1e6 / elapsed,
            second: used / (bytes / 1e9),
        })
    }

    fn copy_command(&mut self, kind: Kind, key: &str, copy: &str) -> Result<Command> {
        let home = self.lab.client_directory()?;
        let from = self.objects(0)?;
        let (bucket, from_endpoint) = (from.bucket().clone(), from.endpoint());
        let remote = rclone_remote(from, key);
        let to = self.objects(1)?;
        let s3_url = |objects: &str, key: &str| format!("{}/{}/{key}", objects.replace("http:", "s3:"), bucket.name());
        let mut command = match kind {
            Kind::Client(Program::Rclone) => {
                let mut command = Command::new(Program::Rclone.path()?);
                command.args(["copyto", &remote, &rclone_remote(to, copy)]);
                command
            }
            Kind::Client(Program::Aws) => {
                let program = Program::Aws.path()?;
                let mut command = Command::new("bash");
                command.args(["-o", "pipefail", "-c"]).arg(format!(
                    "{program} --endpoint-url {from_endpoint} s3 cp s3://{name}/{key} - | \
                     {program} --endpoint-url {} s3 cp - s3://{name}/{copy}",
                    to.endpoint(),
                    program = program.display(),
                    name = bucket.name(),
                ));
                command
            }
            _ => {
                let mut command = Command::new(Program::Crossload.path()?);
                command
                    .args(["copy", "-q"])
                    .args([s3_url(&from_endpoint, key), s3_url(&to.endpoint(), copy)]);
                command
            }
        };
        command
            .env("AWS_ACCESS_KEY_ID", bucket.access_key())
            .env("AWS_SECRET_ACCESS_KEY", bucket.secret_key())
            .env("AWS_DEFAULT_REGION", bucket.region())
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("RCLONE_CONFIG", "/dev/null")
            .env(RCLONE_NO_WAIT.0, RCLONE_NO_WAIT.1)
            .env("HOME", home)
            .env_remove("AWS_CA_BUNDLE")
            .stdin(Stdio::null());
        Ok(command)
    }

    fn objects(&mut self, number: usize) -> Result<&mut Objects> {
        self.store_site()?;
        let site = self.stores.site.as_mut();
        let site = site.ok_or_else(|| Error::Failed("nothing stands behind".to_owned()))?;
        site.objects(&mut self.lab, number)
    }

    fn plant_object(&mut self, key: &str, size_bytes: u64) -> Result<()> {
        let (source, _) = self.lab.source(size_bytes)?;
        self.objects(0)?;
        let objects = self.stores.site.as_mut().map(|site| site.objects(&mut self.lab, 0));
        match objects {
            Some(objects) => objects?.plant(&self.client, &source, key),
            None => Err(Error::Failed("nothing stands behind".to_owned())),
        }
    }

    /// Runs `work`, which moves `expected` bytes through `front`.
    pub(super) fn cost(
        &mut self,
        front: &mut super::Front,
        work: Work,
        expected: u64,
        run: impl FnOnce(&mut Self) -> Result<u64>,
    ) -> Result<Cost> {
        let (behind, clients) = (self.behind_seconds(work)?, ended_children_cpu_seconds()?);
        let (own, began) = (front.process().cpu_seconds()?, Instant::now());
        let moved = run(self)?;
        let elapsed = began.elapsed();
        let own = front.process().cpu_seconds()? - own;
        let (behind, clients) = (
            self.behind_seconds(work)? - behind,
            ended_children_cpu_seconds()? - clients,
        );
        if moved != expected {
            return Err(Error::Failed(format!("{moved} bytes were moved instead of {expected}")));
        }
        let gigabytes = moved as f64 / 1e9;
        Ok(Cost {
            sample: Sample::of_data(own, moved, elapsed),
            others: Sample {
                first: behind / gigabytes,
                second: clients / gigabytes,
            },
        })
    }

    fn behind_seconds(&mut self, work: Work) -> Result<f64> {
        if work.is_s3() {
            return self.objects(0)?.process().cpu_seconds();
        }
        self.store_site()?;
        let site = self.stores.site.as_mut().map(|site| site.origin(&mut self.lab));
        site.map_or(Ok(0.0), |origin| origin?.process().cpu_seconds())
    }

    /// Keeps what the others took, for their row.
    pub(super) fn keep(&mut self, kind: Kind, work: Work, cost: Result<Cost>) -> Result<Sample> {
        let cost = cost?;
        let others = self.stores.others.entry((work, kind)).or_default();
        others.push_back(cost.others);
        Ok(cost.sample)
    }
}

/// Removes an object that was stored, and complains if it is another one.
fn take_away(objects: &Objects, key: &str, checksum: u32) -> Result<()> {
    let path = objects.file(key);
    let found = adler32(&path)?;
    fs::remove_file(&path)?;
    match found == checksum {
        true => Ok(()),
        false => Err(Error::Failed(format!("{key} has adler32 {found:08x}"))),
    }
}
