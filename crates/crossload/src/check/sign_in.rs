//! Checks what the pages need to let people sign in at an issuer.

use config::Configuration;

use super::finding::Finding;
use super::lines::Lines;
use crate::server::secret::load_client_secret;

/// Whether the secret that goes with this server's name at the issuer can be read.
pub(super) fn check(configuration: &Configuration, lines: &Lines) -> Option<Finding> {
    let file = configuration.web.oidc_client_secret_file.as_ref()?;
    Some(match load_client_secret(file) {
        Ok(_) => Finding::ok("sign_in_secret", "people sign in to the pages at an issuer"),
        Err(failure) => Finding::error("sign_in_secret_unusable", failure.words)
            .at(lines.of("web", "oidc_client_secret_file"))
            .change("write the secret of the client into the file, and run chmod 600"),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_secret_that_cannot_be_used_is_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("secret");
        let found = || {
            let issuer = "https://iam.example";
            let text = format!(
                "[web]\noidc_issuer = \"{issuer}\"\noidc_client_id = \"c\"\noidc_client_secret_file = {file:?}\n\
                 [[issuer]]\nurl = \"{issuer}\"\n"
            );
            let configuration = Configuration::parse(&text, Path::new("/"), "c.toml").unwrap();
            check(&configuration, &Lines::new(Path::new("c.toml"), text)).unwrap()
        };
        let write = |text: &str, mode: u32| {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        };
        assert_eq!(found().code, "sign_in_secret_unusable");
        assert_eq!(found().position.unwrap().key, "web.oidc_client_secret_file");
        write(" \n", 0o600);
        assert_eq!(found().code, "sign_in_secret_unusable", "it is empty");
        write("hush\n", 0o644);
        assert_eq!(found().code, "sign_in_secret_unusable", "others can read it");
        write("hush\n", 0o600);
        assert_eq!(found().code, "sign_in_secret");
    }
}
