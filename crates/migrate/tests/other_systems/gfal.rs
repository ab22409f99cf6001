//! gfal and Rucio's lists of storages.

use std::path::Path;

use config::ClientConfiguration;
use migrate::{DocumentKind, Migration, Outcome, System};

use crate::{all_remarks, migration, remark};

fn client(migration: &Migration) -> (ClientConfiguration, String) {
    let text = migration
        .find(DocumentKind::Client)
        .expect("there are remotes")
        .render("a test");
    let read = ClientConfiguration::parse(&text, Path::new("/people/ann/client.toml"));
    (read.unwrap_or_else(|faults| panic!("{faults}\n{text}")), text)
}

#[test]
fn settings_are_options_and_storages_remotes() {
    let migration = migration(System::Gfal, &["gfal", "gfal-rses.json"]);
    let (configuration, text) = client(&migration);
    let remotes: Vec<_> = configuration
        .remotes
        .iter()
        .map(|remote| (&*remote.name, &*remote.url))
        .collect();
    let expected = [
        ("objects.example.org", "s3s://objects.example.org/"),
        ("NORTH_DISK", "davs://dav.north.example:443/pool/data"),
        ("EAST", "root://xrd.east.example//e"),
    ];
    assert_eq!(remotes, expected);
    let s3 = &configuration.remotes[0];
    assert_eq!(
        (s3.addressing.as_deref(), s3.region.as_deref()),
        (Some("path"), Some("north-1"))
    );
    assert!(s3.cert.is_none());
    assert_eq!(
        configuration.remotes[1].key.as_deref(),
        Some(Path::new("/etc/grid-security/robot.key"))
    );
    for (text, outcome) in [
        ("DEFAULT_COPY_MODE", Outcome::NoEquivalent),
        ("--mode pull or --mode push", Outcome::NoEquivalent),
        ("INSECURE", Outcome::InPart),
        ("SECRET_KEY (value not shown)", Outcome::NotNeeded),
        ("does not speak SRM", Outcome::NoEquivalent),
        ("COPY_CHECKSUM_TYPE", Outcome::NoEquivalent),
        ("X=1", Outcome::Unknown),
        ("storage SOUTH_TAPE", Outcome::NoEquivalent),
        ("storage bad name", Outcome::InPart),
        (
            "it also has root://xrd.north.example:1094//pool/data",
            Outcome::TakenOver,
        ),
    ] {
        assert_eq!(remark(&migration, text).0, outcome, "{text}");
    }
    assert!(!format!("{text}{}", all_remarks(&migration)).contains("hunter2"));
}
