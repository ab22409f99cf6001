//! Tape by the XRootD protocol: a scripted server, and XRootD itself with a program that stands for
//! the tape system.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use remote::{ArchiveState, Client, Locality, Resource, StageState, TapeSystem, ToStage};
use testkit::{
    AddressFamilies, Authority, Result, Scratch, TAPE_PROGRAM, Xrootd, XrootdAccess, XrootdOptions, XrootdVersion,
    available,
};
use types::ErrorCode;
use xroot_wire::{ErrorNumber, Opcode, StatFlags};

use crate::asking::stat_of;
use crate::script::{Server, client, resource};

fn xrootd(version: XrootdVersion, scratch: &Scratch) -> Result<Xrootd> {
    let authority = Authority::new(scratch.path())?;
    let directory = scratch.path().join("own");
    std::fs::create_dir_all(directory.join("tape"))?;
    std::fs::create_dir_all(directory.join("files/data"))?;
    let program = directory.join("tape-program");
    std::fs::write(&program, TAPE_PROGRAM)?;
    // XRootD and its program run as another user.
    for path in [&program, &directory] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
    }
    Xrootd::start(&XrootdOptions {
        version,
        name: "tape".to_owned(),
        data: directory.join("files/data"),
        certificate: authority.issue_localhost()?,
        trust_directory: authority.trust_directory(),
        access: XrootdAccess::Open,
        families: AddressFamilies::V4,
        more: format!(
            "ofs.preplib libXrdOfsPrepGPI.so -admit stage,query,cancel,evict -run {}\n",
            program.display()
        ),
        directory,
    })
}

fn to_stage(path: &str) -> ToStage<'_> {
    ToStage {
        path,
        pin_s: None,
        metadata: None,
    }
}

async fn states(client: &Client, system: &TapeSystem, place: &Resource, request: &str) -> Vec<StageState> {
    let paths = ["/data/f", "/data/torn"].map(str::to_owned);
    client.stage_states(system, place, request, &paths).await.unwrap()
}

#[tokio::test]
async fn xrootd_brings_files_online_by_its_program() {
    for version in XrootdVersion::ALL {
        let scratch = Scratch::new("root-tape").unwrap();
        let Some(server) = available("xrootd_brings_files_online_by_its_program", xrootd(version, &scratch)) else {
            continue;
        };
        let own = scratch.path().join("own");
        std::fs::write(own.join("tape/f"), b"from tape").unwrap();
        let client = client();
        let place = resource(&server.root_url("/data/f"));
        let system = client.tape_system(&place).await.unwrap().unwrap();
        let files = [to_stage("/data/f"), to_stage("/data/torn")];
        let request = client.stage(&system, &place, &files).await.unwrap();
        let torn = StageState::Failed("the tape is torn".to_owned());
        let begun = Instant::now();
        // The program runs beside the answer.
        while states(&client, &system, &place, &request).await != [StageState::OnDisk, torn.clone()] {
            assert!(begun.elapsed() < Duration::from_secs(20), "{version:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let on_disk = own.join("files/data/f");
        assert_eq!(std::fs::read(&on_disk).unwrap(), b"from tape");
        let paths = ["/data/f".to_owned()];
        client.release_staged(&system, &place, &request, &paths).await.unwrap();
        while on_disk.exists() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{version:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let cancel = client.cancel_staging(&system, &place, &request, &paths, true);
        cancel.await.unwrap();
    }
}

#[tokio::test]
async fn without_a_program_the_flags_of_a_file_count() {
    let server = Server::welcoming(|_, mut peer| async move {
        while let Some(heard) = peer.request().await {
            let text = heard.text();
            let flags = match text.as_str() {
                "/data/a" => StatFlags::OFFLINE | StatFlags::BACKED_UP,
                "/data/b" => StatFlags::READABLE | StatFlags::BACKED_UP,
                _ => StatFlags::READABLE,
            };
            match heard.opcode() {
                Opcode::Prepare => peer.ok(heard.id(), b"52667f000001:277289e9.6b01e6b2:1").await,
                Opcode::Query => peer.ok(heard.id(), b"No information found.\0").await,
                Opcode::Stat if text == "/data/none" => {
                    peer.refuse(heard.id(), ErrorNumber::NOT_FOUND, "no such file").await;
                }
                _ => peer.ok(heard.id(), &stat_of(5, flags)).await,
            }
        }
    })
    .await;
    let (client, place) = (client(), server.file("/data/a"));
    let system = client.tape_system(&place).await.unwrap().unwrap();
    let files = [to_stage("/data/a"), to_stage("/data/b")];
    let request = client.stage(&system, &place, &files).await.unwrap();
    assert_eq!(request, "52667f000001:277289e9.6b01e6b2:1");
    let paths = ["/data/a", "/data/b", "/data/c"].map(str::to_owned);
    let states = client.stage_states(&system, &place, &request, &paths).await.unwrap();
    assert_eq!(states, [StageState::Waiting, StageState::OnDisk, StageState::OnDisk]);
    let places = client.archive_states(&system, &place, &paths).await.unwrap();
    let expected = [Locality::Tape, Locality::DiskAndTape, Locality::Disk].map(ArchiveState::At);
    assert_eq!(places, expected);
    // A part of a request cannot be canceled: the rest would go with it.
    let before = server.heard_of(Opcode::Prepare).len();
    client
        .cancel_staging(&system, &place, &request, &paths[..1], false)
        .await
        .unwrap();
    assert_eq!(server.heard_of(Opcode::Prepare).len(), before);
    let bad = [to_stage("/data/a\nb")];
    let error = client.stage(&system, &place, &bad).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PathRefused);
}
