//! Launcher for ActiveMQ (Debian's package) with a STOMP port on loopback, without its init script.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{Error, Process, Result, free_port, require};

/// Debian's installation.
const HOME: &str = "/usr/share/activemq";
/// The broker's configuration, in its directory.
const CONFIGURATION: &str = "conf/broker.xml";
/// It takes about ten seconds on a quiet machine.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// A running broker. It asks for no password.
#[derive(Debug)]
pub struct ActiveMq {
    directory: PathBuf,
    process: Process,
    port: u16,
}

impl ActiveMq {
    /// Starts one that keeps nothing on disk, with its files in `directory`, and waits until it
    /// accepts connections.
    ///
    /// # Errors
    /// [`Error::Missing`] when ActiveMQ or Java is not installed.
    pub fn start(directory: &Path) -> Result<Self> {
        Self::start_with(directory, false)
    }

    /// Starts one that keeps persistent messages on disk.
    ///
    /// # Errors
    /// As [`ActiveMq::start`].
    pub fn start_persistent(directory: &Path) -> Result<Self> {
        Self::start_with(directory, true)
    }

    fn start_with(directory: &Path, is_persistent: bool) -> Result<Self> {
        let port = free_port()?;
        fs::create_dir_all(directory.join("conf"))?;
        fs::create_dir_all(directory.join("data"))?;
        fs::write(
            directory.join(CONFIGURATION),
            configuration(directory, port, is_persistent),
        )?;
        Ok(Self {
            process: launch(directory, port)?,
            directory: directory.to_owned(),
            port,
        })
    }

    /// Starts it again on the same port with the same files, after [`Process::kill_hard`].
    ///
    /// # Errors
    /// As [`ActiveMq::start`].
    pub fn start_again(&mut self) -> Result<()> {
        self.process = launch(&self.directory, self.port)?;
        Ok(())
    }

    /// The port for STOMP.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn launch(directory: &Path, port: u16) -> Result<Process> {
    let java = require("java")?;
    let jar = PathBuf::from(HOME).join("bin/activemq.jar");
    if !jar.exists() {
        return Err(Error::Missing("Debian's package activemq is not installed".to_owned()));
    }
    let mut command = Command::new(java);
    command
        .args(["-Xmx128m", "-Djava.net.preferIPv4Stack=true"])
        .arg(format!("-Dactivemq.home={HOME}"))
        .arg(format!("-Dactivemq.base={}", directory.display()))
        .arg(format!("-Dactivemq.data={}", directory.join("data").display()))
        .arg("-jar")
        .arg(jar)
        .arg("start")
        .arg(format!("xbean:file:{}", directory.join(CONFIGURATION).display()));
    let mut process = Process::spawn("activemq", &mut command, directory)?;
    process.wait_listening(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), START_TIMEOUT)?;
    Ok(process)
}

fn configuration(directory: &Path, port: u16, is_persistent: bool) -> String {
    let data = directory.join("data");
    let data = data.display();
    format!(
        r#"<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="test" dataDirectory="{data}"
    persistent="{is_persistent}" useJmx="false">
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/>
    </transportConnectors>
  </broker>
</beans>
"#
    )
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;
    use crate::{Scratch, available};

    /// Starting it costs ten seconds and more; this is the only test of the launcher.
    #[test]
    fn a_broker_answers_by_stomp() {
        let scratch = Scratch::new("activemq").unwrap();
        let Some(broker) = available("a_broker_answers_by_stomp", ActiveMq::start(scratch.path())) else {
            return;
        };
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, broker.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
            .write_all(b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0")
            .unwrap();
        let mut reader = BufReader::new(&mut stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), "CONNECTED");
        let mut rest = vec![0; 16];
        assert!(reader.read(&mut rest).unwrap() > 0);
    }
}
