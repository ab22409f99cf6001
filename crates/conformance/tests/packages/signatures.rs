//! Checksums and signatures, verified as a user does, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::{Run, run};
use testkit::{Result, Scratch, available, require};

use crate::workshop::{recipe, workshop};

/// A key of gpg in a directory of its own.
struct Key {
    home: PathBuf,
    public: PathBuf,
}

const ADDRESS: &str = "releases@example.org";

impl Key {
    fn new(scratch: &Scratch, name: &str) -> Result<Self> {
        require("gpg")?;
        let home = scratch.create(name)?;
        let mut mode = Command::new("chmod");
        run(mode.arg("700").arg(&home)).succeeded();
        let key = Self {
            public: scratch.join(&format!("{name}.asc")),
            home,
        };
        let user = format!("Test <{ADDRESS}>");
        key.gpg(&[
            "--passphrase",
            "",
            "--quick-generate-key",
            &user,
            "rsa2048",
            "sign",
            "never",
        ]);
        fs::write(&key.public, key.gpg(&["--armor", "--export", ADDRESS]).stdout)?;
        Ok(key)
    }

    fn gpg(&self, arguments: &[&str]) -> Run {
        let mut gpg = Command::new("gpg");
        gpg.env("GNUPGHOME", &self.home)
            .args(["--batch", "--quiet"])
            .args(arguments);
        run(&gpg).succeeded()
    }

    fn sign(&self, directory: &Path) {
        let mut sign = recipe("sign");
        sign.env("CROSSLOAD_SIGNING_KEY", ADDRESS).env("GNUPGHOME", &self.home);
        run(sign.arg(directory)).succeeded();
    }

    /// Makes a list of this one package, and signs the list only.
    fn sign_list_of(&self, package: &Path) {
        let directory = package.parent().expect("a directory");
        let name = package.file_name().expect("a name");
        let sums = run(Command::new("sha256sum").arg(name).current_dir(directory)).succeeded();
        let (list, signature) = (directory.join("SHA256SUMS"), directory.join("SHA256SUMS.asc"));
        fs::write(&list, sums.stdout).expect("a file");
        fs::remove_file(&signature).expect("removed");
        let paths = [signature.to_str().expect("plain"), list.to_str().expect("plain")];
        self.gpg(&["--armor", "--detach-sign", "--output", paths[0], paths[1]]);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        // Its agent outlives the commands.
        let mut end = Command::new("gpgconf");
        let _ = run(end.env("GNUPGHOME", &self.home).args(["--kill", "all"]));
    }
}

fn verify(directory: &Path, key: &Key) -> Run {
    let mut verify = Command::new("sh");
    run(verify
        .arg(directory.join("verify"))
        .arg("--key")
        .arg(&key.public)
        .arg(directory))
}

/// The commands of the manual, without our script.
fn verified_by_hand(directory: &Path, key: &Key, home: &Path) {
    let commands = "gpg --batch --import \"$1\" && gpg --batch --verify SHA256SUMS.asc SHA256SUMS \
        && sha256sum --check --ignore-missing SHA256SUMS";
    let mut shell = Command::new("sh");
    shell.args(["-c", commands, "sh"]).arg(&key.public);
    run(shell.current_dir(directory).env("GNUPGHOME", home)).succeeded();
}

#[test]
fn users_verify_what_was_signed_and_nothing_else() {
    let test = "users_verify_what_was_signed_and_nothing_else";
    let Some(workshop) = available(test, workshop()) else {
        return;
    };
    let keys = require("rpmsign")
        .and_then(|_| Scratch::new("keys"))
        .and_then(|scratch| {
            let keys = [Key::new(&scratch, "ours")?, Key::new(&scratch, "other")?];
            Ok((scratch, keys))
        });
    let Some((scratch, [ours, other])) = available(test, keys) else {
        return;
    };
    let made = workshop.pack("rpm", &workshop.light, None, "signed");
    let directory = made[0].parent().expect("a directory").to_owned();
    fs::write(directory.join("archive.tar.xz"), "content").expect("a file");

    // Without a key there are checksums, and nothing that could be verified.
    let unsigned = run(recipe("sign").arg(&directory)).succeeded();
    assert!(unsigned.stderr.contains("nothing is signed"), "{}", unsigned.said());
    let refused = verify(&directory, &ours).failed_with(1);
    assert!(
        refused.stderr.contains("SHA256SUMS.asc is not in"),
        "{}",
        refused.said()
    );

    ours.sign(&directory);
    let verified = verify(&directory, &ours).succeeded();
    for line in [
        "SHA256SUMS: signed by ",
        "archive.tar.xz: OK",
        ".rpm: digests signatures OK",
    ] {
        assert!(verified.text().contains(line), "{line}: {}", verified.said());
    }
    let refused = verify(&directory, &other).failed_with(1);
    assert!(refused.stderr.contains("is not signed by"), "{}", refused.said());

    let home = scratch.create("by-hand").expect("a directory");
    verified_by_hand(&directory, &ours, &home);

    // Not every file was downloaded: the others are verified.
    fs::remove_file(directory.join("crossload-signing-key.asc")).expect("removed");
    verify(&directory, &ours).succeeded();

    fs::write(directory.join("archive.tar.xz"), "changed").expect("a file");
    let refused = verify(&directory, &ours).failed_with(1);
    assert!(
        refused.stderr.contains("not the one that was signed"),
        "{}",
        refused.said()
    );

    // A list that fits the changed file.
    let sums = run(Command::new("sha256sum").arg("archive.tar.xz").current_dir(&directory)).succeeded();
    fs::write(directory.join("SHA256SUMS"), sums.stdout).expect("a file");
    let refused = verify(&directory, &ours).failed_with(1);
    assert!(refused.stderr.contains("is not signed by"), "{}", refused.said());

    // An RPM package with the signature of another key, in a list with ours.
    other.sign(&directory);
    ours.sign_list_of(&made[0]);
    let refused = verify(&directory, &ours).failed_with(1);
    assert!(refused.stderr.contains(".rpm is not signed by"), "{}", refused.said());
}
