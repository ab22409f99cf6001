//! Third-party copies as `xrdcp --tpc only` asks for them, request by request, at exactly the time
//! when they end: `xrdcp` itself looks only every 2.5 seconds whether a copy is done.

use std::thread;

use testkit::Result;
use xroot_wire::request::{Request, SyncFile};
use xroot_wire::{CgiBuilder, OpenOptions, Stage, ThirdParty};

use super::session::{XrootSession, failed};

/// One copy of a file between two servers of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) source_port: u16,
    pub(crate) source_path: String,
    pub(crate) destination_port: u16,
    pub(crate) destination_path: String,
    pub(crate) size_bytes: u64,
    /// The rendezvous key, of its own for each copy.
    pub(crate) key: String,
}

/// Does all `copies` at once, each with two sessions of its own, and waits until all have ended
/// well.
pub(crate) fn copy_all(copies: &[Copy]) -> Result<()> {
    thread::scope(|scope| {
        let workers: Vec<_> = copies.iter().map(|copy| scope.spawn(|| copy.run())).collect();
        // Every thread is waited for, whatever became of the others.
        let ends: Vec<Result<()>> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(failed("a client failed"))))
            .collect();
        ends.into_iter().collect()
    })
}

impl Copy {
    fn run(&self) -> Result<()> {
        let mut source = XrootSession::open(self.source_port, true)?;
        let mut destination = XrootSession::open(self.destination_port, true)?;
        let placement = source.open_to_read(&self.placement())?;
        source.close(placement.handle)?;
        let options =
            OpenOptions::TRUNCATE | OpenOptions::UPDATE | OpenOptions::ASYNCHRONOUS | OpenOptions::RETURN_STAT;
        let target = destination.open_file(&self.target(), options)?;
        // The first prepares the copy; the second begins it, and is answered when it has ended.
        let sync = Request::Sync(SyncFile { handle: target.handle });
        destination.ask(&sync)?;
        let origin = source.open_to_read(&self.origin())?;
        destination.ask(&sync)?;
        source.close(origin.handle)?;
        destination.close(target.handle)
    }

    fn placement(&self) -> String {
        let copy = ThirdParty {
            stage: Some(Stage::Placement),
            ..ThirdParty::default()
        };
        CgiBuilder::for_path(&self.source_path).third_party(&copy).build()
    }

    fn target(&self) -> String {
        let source = format!("localhost:{}", self.source_port);
        let copy = ThirdParty {
            stage: Some(Stage::Copy),
            key: Some(&self.key),
            source: Some(&source),
            source_path: Some(&self.source_path),
            delegation_source: Some(&source),
            delegation: Some("0"),
            source_protocol: Some("root"),
            destination_protocol: Some("root"),
            streams: Some("1"),
            ..ThirdParty::default()
        };
        CgiBuilder::for_path(&self.destination_path)
            .expected_bytes(self.size_bytes)
            .third_party(&copy)
            .build()
    }

    fn origin(&self) -> String {
        let copy = ThirdParty {
            stage: Some(Stage::Copy),
            key: Some(&self.key),
            destination: Some("localhost"),
            ..ThirdParty::default()
        };
        CgiBuilder::for_path(&self.source_path).third_party(&copy).build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_and_the_destination_are_told_of_each_other() {
        let copy = Copy {
            source_port: 1,
            source_path: "/data/a".to_owned(),
            destination_port: 2,
            destination_path: "/data/b".to_owned(),
            size_bytes: 7,
            key: "k".to_owned(),
        };
        assert_eq!(copy.placement(), "/data/a?tpc.stage=placement");
        assert_eq!(copy.origin(), "/data/a?tpc.dst=localhost&tpc.key=k&tpc.stage=copy");
        assert_eq!(
            copy.target(),
            "/data/b?oss.asize=7&tpc.dlg=localhost:1&tpc.dlgon=0&tpc.key=k&tpc.lfn=/data/a&tpc.spr=root\
             &tpc.src=localhost:1&tpc.stage=copy&tpc.str=1&tpc.tpr=root"
        );
    }
}
