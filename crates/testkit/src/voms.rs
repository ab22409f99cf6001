//! VOMS servers: what they say of users, made here, and by Debian's `voms-proxy-fake`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gsi_wire::encode;

use crate::certificate::{CertificateOptions, now_s, random_serial};
use crate::programs::output_of;
use crate::user::{User, parsed};
use crate::{Authority, Result, Scratch, require};

/// The server of a VO.
#[derive(Debug, Clone)]
pub struct VomsServer {
    vo: String,
    host: String,
    own: User,
}

/// What attributes are to be; sound unless changed.
#[derive(Debug, Clone)]
pub struct AttributeOptions {
    /// Valid from so many seconds from now on.
    pub starts_s: i64,
    /// Valid until so many seconds from now; negative: they have expired.
    pub ends_s: i64,
    /// The hosts that they are for; `None`: for all.
    pub targets: Option<Vec<String>>,
    /// Whether the server's certificate is left out.
    pub without_certificate: bool,
    /// It has an unknown critical extension.
    pub unknown_extension: bool,
    /// The signature is another server's, or nobody's.
    pub wrong_signature: bool,
    /// The VO that it names, in place of the server's own.
    pub vo: Option<String>,
}

impl Default for AttributeOptions {
    fn default() -> Self {
        Self {
            starts_s: -300,
            ends_s: 12 * 3600,
            targets: None,
            without_certificate: false,
            unknown_extension: false,
            wrong_signature: false,
            vo: None,
        }
    }
}

impl Authority {
    /// A server for the VO, called `voms.VO.example`.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when the library fails.
    pub fn issue_voms_server(&self, vo: &str) -> Result<VomsServer> {
        let host = format!("voms.{vo}.example");
        let options = CertificateOptions {
            purposes: vec!["1.3.6.1.5.5.7.3.1".to_owned(), "1.3.6.1.5.5.7.3.2".to_owned()],
            host_names: vec![host.clone()],
            ..CertificateOptions::default()
        };
        let own = self.issue(&format!("/O=Crossload test/CN={host}"), &options)?;
        Ok(VomsServer {
            vo: vo.to_owned(),
            host,
            own,
        })
    }
}

impl VomsServer {
    /// The server's own certificate and key.
    #[must_use]
    pub fn own(&self) -> &User {
        &self.own
    }

    /// The content of its `.lsc` file.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when its certificate was made unreadable.
    pub fn lsc(&self) -> Result<String> {
        let own = parsed(self.own.end_entity())?;
        Ok(format!("{}\n{}\n", own.subject().one_line, own.issuer().one_line))
    }

    /// Writes its `.lsc` file into a VOMS directory, for `X509_VOMS_DIR`.
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when it cannot be written.
    pub fn write_lsc(&self, directory: &Path) -> Result<PathBuf> {
        let of_vo = directory.join(&self.vo);
        fs::create_dir_all(&of_vo)?;
        let path = of_vo.join(format!("{}.lsc", self.host));
        fs::write(&path, self.lsc()?)?;
        Ok(path)
    }

    /// What the server says of a user: an attribute certificate in DER with these FQANs, for
    /// [`crate::ProxyOptions::attributes`].
    ///
    /// # Errors
    /// [`crate::Error::Failed`] when the library fails.
    pub fn attributes(&self, holder: &User, fqans: &[&str]) -> Result<Vec<u8>> {
        self.attributes_with(holder, fqans, &AttributeOptions::default())
    }

    /// Any attributes, sound or not.
    ///
    /// # Errors
    /// As [`Self::attributes`].
    pub fn attributes_with(&self, holder: &User, fqans: &[&str], options: &AttributeOptions) -> Result<Vec<u8>> {
        let (holder, own) = (parsed(holder.end_entity())?, parsed(self.own.end_entity())?);
        let name_in = |name: &[u8]| encode::sequence(&[&encode::element(encode::context(4), &[name])]);
        let algorithm = self.own.key().kind().algorithm();
        let now = now_s();
        let serial = encode::element(2, &[holder.serial()]);
        let content = encode::sequence(&[
            &encode::positive_integer(&[1]),
            &encode::sequence(&[&encode::element(
                encode::context(0),
                &[&name_in(holder.issuer().der), &serial],
            )]),
            &encode::element(encode::context(0), &[&name_in(own.subject().der)]),
            &algorithm,
            &encode::positive_integer(&random_serial()),
            &encode::sequence(&[
                &encode::generalized_time(now + options.starts_s),
                &encode::generalized_time(now + options.ends_s),
            ]),
            &self.attribute(fqans, options),
            &self.extensions(options),
        ]);
        let mut signature = self.own.key().sign(&content)?;
        if options.wrong_signature {
            signature[20] ^= 1;
        }
        Ok(encode::sequence(&[
            &content,
            &algorithm,
            &encode::bit_string(&signature),
        ]))
    }

    fn attribute(&self, fqans: &[&str], options: &AttributeOptions) -> Vec<u8> {
        let vo = options.vo.as_deref().unwrap_or(&self.vo);
        let uri = format!("{vo}://{}:15000", self.host);
        let values: Vec<_> = fqans.iter().map(|fqan| encode::octet_string(fqan.as_bytes())).collect();
        let values: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let syntax = encode::sequence(&[
            &encode::element(encode::context(0), &[&encode::element(0x86, &[uri.as_bytes()])]),
            &encode::sequence(&values),
        ]);
        let kind = encode::object_identifier("1.3.6.1.4.1.8005.100.100.4");
        encode::sequence(&[&encode::sequence(&[&kind, &encode::set(&[&syntax])])])
    }

    fn extensions(&self, options: &AttributeOptions) -> Vec<u8> {
        // noRevAvail and authorityKeyIdentifier, which VOMS demands.
        let key = encode::sequence(&[&encode::element(0x80, &[&self.own.key().identifier()])]);
        let mut extensions = vec![
            encode::extension("2.5.29.56", false, &[5, 0]),
            encode::extension("2.5.29.35", false, &key),
        ];
        if !options.without_certificate {
            let list = encode::sequence(&[&encode::sequence(&[self.own.end_entity()])]);
            extensions.push(encode::extension("1.3.6.1.4.1.8005.100.100.10", false, &list));
        }
        if let Some(targets) = &options.targets {
            let targets: Vec<_> = targets
                .iter()
                .map(|host| encode::element(encode::context(0), &[&encode::element(0x86, &[host.as_bytes()])]))
                .collect();
            let targets: Vec<&[u8]> = targets.iter().map(Vec::as_slice).collect();
            let value = encode::sequence(&[&encode::sequence(&targets)]);
            extensions.push(encode::extension("2.5.29.55", true, &value));
        }
        if options.unknown_extension {
            extensions.push(encode::extension("1.3.6.1.4.1.55555.2", true, &[5, 0]));
        }
        let extensions: Vec<&[u8]> = extensions.iter().map(Vec::as_slice).collect();
        encode::sequence(&extensions)
    }

    /// Makes a proxy of `user` with these FQANs by Debian's `voms-proxy-fake`, into the file
    /// `path`.
    ///
    /// # Errors
    /// [`crate::Error::Missing`] without that program.
    pub fn fake_proxy(&self, user: &User, fqans: &[&str], path: &Path) -> Result<PathBuf> {
        let program = require("voms-proxy-fake")?;
        let scratch = Scratch::new("voms-proxy-fake")?;
        let directory = scratch.path();
        let (certificate, key) = user.write_pair(directory, "user")?;
        let (server, server_key) = self.own.write_pair(directory, "server")?;
        let mut command = Command::new(program);
        command.args(["-rfc", "-hours", "12", "-voms", &self.vo, "-uri"]);
        command
            .arg(format!("{}:15000", self.host))
            .arg("-certdir")
            .arg(directory);
        command.arg("-cert").arg(certificate).arg("-key").arg(key);
        command.arg("-hostcert").arg(server).arg("-hostkey").arg(server_key);
        for fqan in fqans {
            command.args(["-fqan", fqan]);
        }
        output_of(command.arg("-out").arg(path))?;
        Ok(path.to_owned())
    }
}
