//! Launcher for nginx as a plain child process: a static file server that accepts WebDAV's PUT and
//! DELETE, the well-known measure for HTTP.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ports::start_elsewhere;
use crate::{Error, HostCertificate, Process, Result, free_port, is_superuser, require};

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// How to start it.
#[derive(Debug, Clone)]
pub struct NginxOptions {
    /// A short name for its log files.
    pub name: String,
    /// Where its configuration and logs go; made if need be.
    pub directory: PathBuf,
    /// The directory that is served as `/data`. Its last part must be `data`; made if need be.
    /// Uploads are collected next to it, on the same file system, so that finishing one is a
    /// rename.
    pub data: PathBuf,
    /// Certificate and key.
    pub certificate: HostCertificate,
}

/// A running nginx. Clear text and TLS are on different ports of loopback.
#[derive(Debug)]
pub struct Nginx {
    process: Process,
    https_port: u16,
    http_port: u16,
    data: PathBuf,
}

impl Nginx {
    /// Starts it and waits until it accepts connections.
    ///
    /// # Errors
    /// [`Error::Missing`] when nginx is not installed.
    pub fn start(options: &NginxOptions) -> Result<Self> {
        let program = require("nginx")?;
        if options.data.file_name().is_none_or(|name| name != "data") {
            return Err(Error::Failed(format!("{} must end in data", options.data.display())));
        }
        let root = options.data.parent().unwrap_or(Path::new("/"));
        for directory in [&options.directory, &options.data, &root.join("incoming")] {
            fs::create_dir_all(directory)?;
        }
        start_elsewhere(|| Self::start_once(&program, options, root))
    }

    fn start_once(program: &Path, options: &NginxOptions, root: &Path) -> Result<Self> {
        let (https_port, http_port) = (free_port()?, free_port()?);
        let file = options.directory.join("nginx.conf");
        fs::write(&file, configuration(options, root, https_port, http_port))?;
        let mut command = Command::new(program);
        command
            .arg("-e")
            .arg(options.directory.join("error.log"))
            .arg("-p")
            .arg(&options.directory);
        command.arg("-c").arg(&file);
        let mut process = Process::spawn(&options.name, &mut command, &options.directory)?;
        for port in [https_port, http_port] {
            process.wait_listening(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), START_TIMEOUT)?;
        }
        Ok(Self {
            process,
            https_port,
            http_port,
            data: options.data.clone(),
        })
    }

    /// The URL of `path` (which begins with `/data`) over TLS.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.https_port)
    }

    /// The URL of `path` in clear text.
    #[must_use]
    pub fn clear_url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.http_port)
    }

    /// The directory behind `/data`.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The process, to be measured or broken.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

fn configuration(options: &NginxOptions, root: &Path, https_port: u16, http_port: u16) -> String {
    let own = options.directory.display();
    let root = root.display();
    // Its workers would change to a user that cannot write to our directories.
    let user = if is_superuser() { "user root;\n" } else { "" };
    let certificate = options.certificate.certificate.display();
    let key = options.certificate.key.display();
    format!(
        "daemon off;\n{user}worker_processes 2;\npid {own}/nginx.pid;\nerror_log {own}/error.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n\
         access_log {own}/access.log;\n\
         sendfile on;\n\
         tcp_nopush on;\n\
         keepalive_requests 1000000000;\n\
         keepalive_timeout 3600s;\n\
         client_max_body_size 0;\n\
         large_client_header_buffers 4 64k;\n\
         client_body_temp_path {root}/incoming;\n\
         proxy_temp_path {own}/proxy;\n\
         fastcgi_temp_path {own}/fastcgi;\n\
         uwsgi_temp_path {own}/uwsgi;\n\
         scgi_temp_path {own}/scgi;\n\
         server {{\n\
         listen 127.0.0.1:{https_port} ssl;\n\
         listen 127.0.0.1:{http_port};\n\
         server_name localhost;\n\
         ssl_certificate {certificate};\n\
         ssl_certificate_key {key};\n\
         ssl_protocols TLSv1.2 TLSv1.3;\n\
         ssl_session_cache shared:tls:1m;\n\
         root {root};\n\
         location /data {{\n\
         dav_methods PUT DELETE MKCOL COPY MOVE;\n\
         create_full_put_path on;\n\
         autoindex on;\n\
         }}\n\
         }}\n\
         }}\n"
    )
}
