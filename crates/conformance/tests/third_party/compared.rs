//! Every copy is compared, also where the source wants a credential for its checksum, and where its
//! file was damaged after it was stored.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use conformance::{Endpoint, Lab, Run, Twins, adler32, bytes, json_lines};
use testkit::{Result, XrootdAccess, available, require};

const SECRET: &str = "macaroon.secret";
const SIZE: usize = 3_000_001;

/// A source that wants a credential, and the destinations of its files.
fn site() -> Result<(Lab, Twins, [Endpoint; 2])> {
    require("xrootd")?;
    let lab = Lab::new("compared")?;
    let source = Twins::start(&lab, "source")?;
    // The client shows one token to both, so that this destination takes those of the source.
    let options = lab.options("ours");
    if let Endpoint::Crossload(open) = &source.open {
        fs::create_dir_all(&options.directory)?;
        fs::copy(
            open.configuration().with_file_name(SECRET),
            options.directory.join(SECRET),
        )?;
    }
    let ours = Endpoint::Crossload(Box::new(lab.crossload(options)?));
    let theirs = Endpoint::Xrootd(Box::new(lab.xrootd("theirs", XrootdAccess::Open)?));
    Ok((lab, source, [ours, theirs]))
}

/// Copies between two URLs with the token.
fn copy(lab: &Lab, token: &str, source: &str, target: &str) -> Run {
    let file = lab.file(token.as_bytes());
    let token = file.to_str().expect("plain");
    lab.run_client(
        "copy",
        &["--json", "--mode", "pull", "--token-file", token, source, target],
    )
}

/// What the client says was compared.
#[track_caller]
fn verified(run: &Run) -> String {
    let lines = json_lines(run);
    let done = lines.iter().find(|line| line["event"] == "done");
    let done = done.unwrap_or_else(|| panic!("{}", run.said()));
    done["verified"].as_str().unwrap_or("nothing").to_owned()
}

/// Changes one bit of a file and nothing else, as a bad disk does.
fn flip_a_bit(path: &Path) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("the file");
    let modified = file.metadata().expect("its times").modified().expect("its time");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 1_000_000).expect("a byte");
    file.write_all_at(&[byte[0] ^ 1], 1_000_000).expect("the byte");
    File::set_modified(&file, modified).expect("the old time");
}

#[test]
fn copies_from_a_source_that_needs_a_credential_are_compared() {
    let test = "copies_from_a_source_that_needs_a_credential_are_compared";
    let Some((lab, source, destinations)) = available(test, site()) else {
        return;
    };
    let content = bytes(SIZE, 611);
    source.open.put("whole", &content);
    source.open.put("flipped", &content);
    // As a site has it: the checksum was kept when the file came.
    for name in ["whole", "flipped"] {
        lab.run_client("sum", &[&source.open.url(name), "adler32"]).succeeded();
    }
    flip_a_bit(&source.open.data().join("flipped"));
    let token = source.macaroon(&lab, "", "DOWNLOAD,LIST,UPLOAD,DELETE,MANAGE");
    let sum = format!("adler32:{:08x}", adler32(&content));
    for (number, to) in destinations.iter().enumerate() {
        for (from_scheme, to_scheme) in [("roots", "roots"), ("https", "https"), ("https", "roots")] {
            if !to.is_ours() && from_scheme != to_scheme {
                continue;
            }
            let at = |endpoint: &Endpoint, scheme: &str, name: &str| match scheme {
                "roots" => endpoint.roots(name),
                _ => endpoint.url(name),
            };
            let name = |kind: &str| format!("{kind}-{number}-{from_scheme}-{to_scheme}");
            let from = |name: &str| at(&source.guarded, from_scheme, name);
            let whole = copy(&lab, &token, &from("whole"), &at(to, to_scheme, &name("whole"))).succeeded();
            assert_eq!(verified(&whole), sum, "{}", name("whole"));
            let flipped = copy(&lab, &token, &from("flipped"), &at(to, to_scheme, &name("flipped")));
            assert_ne!(flipped.code, Some(0), "{}: {}", name("flipped"), flipped.said());
            assert_eq!(to.stored(&name("flipped")), None, "what is wrong is not left");
        }
    }
}
