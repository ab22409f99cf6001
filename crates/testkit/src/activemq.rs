//! Launcher for ActiveMQ (Debian's package) with STOMP ports on loopback, without its init script.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::programs::output_of;
use crate::{Error, HostCertificate, Process, Result, free_port, require};

/// Debian's installation.
const HOME: &str = "/usr/share/activemq";
/// The broker's configuration, in its directory.
const CONFIGURATION: &str = "conf/broker.xml";
/// It takes about ten seconds on a quiet machine.
const START_TIMEOUT: Duration = Duration::from_secs(90);

/// The password of the broker's key stores: they are in a directory of the test.
const STORE_PASSWORD: &str = "changeit";

/// A running broker. It asks for no password.
#[derive(Debug)]
pub struct ActiveMq {
    directory: PathBuf,
    process: Process,
    port: u16,
    tls_port: Option<u16>,
}

impl ActiveMq {
    /// Starts one that keeps nothing on disk, with its files in `directory`, and waits until it
    /// accepts connections.
    ///
    /// # Errors
    /// [`Error::Missing`] when ActiveMQ or Java is not installed.
    pub fn start(directory: &Path) -> Result<Self> {
        Self::start_with(directory, false, None)
    }

    /// Starts one with a second port for STOMP over TLS. There it shows `host`, and serves only
    /// clients with a certificate of the authority whose certificate is in `authority`.
    ///
    /// # Errors
    /// As [`ActiveMq::start`]; also without `openssl` or Java's `keytool`.
    pub fn start_tls(directory: &Path, host: &HostCertificate, authority: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        write_stores(directory, host, authority)?;
        Self::start_with(directory, false, Some(free_port()?))
    }

    /// Starts one that keeps persistent messages on disk.
    ///
    /// # Errors
    /// As [`ActiveMq::start`].
    pub fn start_persistent(directory: &Path) -> Result<Self> {
        Self::start_with(directory, true, None)
    }

    fn start_with(directory: &Path, is_persistent: bool, tls_port: Option<u16>) -> Result<Self> {
        let port = free_port()?;
        fs::create_dir_all(directory.join("conf"))?;
        fs::create_dir_all(directory.join("data"))?;
        fs::write(
            directory.join(CONFIGURATION),
            configuration(directory, port, tls_port, is_persistent),
        )?;
        Ok(Self {
            process: launch(directory, port)?,
            directory: directory.to_owned(),
            port,
            tls_port,
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

    /// The port for STOMP over TLS, of [`ActiveMq::start_tls`].
    #[must_use]
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port
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

/// Writes the key and the authority as Java reads them.
fn write_stores(directory: &Path, host: &HostCertificate, authority: &Path) -> Result<()> {
    let (key_store, trust_store) = (directory.join("key.p12"), directory.join("trust.p12"));
    let mut export = Command::new(require("openssl")?);
    export.args(["pkcs12", "-export", "-name", "broker", "-passout"]);
    export.arg(format!("pass:{STORE_PASSWORD}"));
    export.arg("-in").arg(&host.certificate).arg("-inkey").arg(&host.key);
    output_of(export.arg("-out").arg(&key_store))?;
    let mut import = Command::new(require("keytool")?);
    import.args([
        "-importcert",
        "-noprompt",
        "-alias",
        "authority",
        "-storetype",
        "PKCS12",
    ]);
    import.args(["-storepass", STORE_PASSWORD]).arg("-file").arg(authority);
    output_of(import.arg("-keystore").arg(&trust_store)).map(drop)
}

/// The key stores, and the connector for TLS.
fn tls_lines(directory: &Path, port: u16) -> [String; 2] {
    let store = |name: &str| format!("file:{}", directory.join(name).display());
    let context = format!(
        r#"<sslContext><sslContext keyStore="{}" keyStorePassword="{STORE_PASSWORD}" keyStoreType="PKCS12"
      trustStore="{}" trustStorePassword="{STORE_PASSWORD}" trustStoreType="PKCS12"/></sslContext>"#,
        store("key.p12"),
        store("trust.p12")
    );
    let uri = format!("stomp+ssl://127.0.0.1:{port}?transport.needClientAuth=true");
    let connector = format!(r#"<transportConnector name="stomp+ssl" uri="{uri}"/>"#);
    [context, connector]
}

fn configuration(directory: &Path, port: u16, tls_port: Option<u16>, is_persistent: bool) -> String {
    let data = directory.join("data");
    let data = data.display();
    let [tls, tls_connector] = tls_port.map(|port| tls_lines(directory, port)).unwrap_or_default();
    format!(
        r#"<beans xmlns="http://www.springframework.org/schema/beans"
    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="test" dataDirectory="{data}"
    persistent="{is_persistent}" useJmx="false">
    {tls}
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/>
      {tls_connector}
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
