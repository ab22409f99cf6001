//! Third-party copies as `xrdcp --tpc only` asks for them, request by request, at exactly the time
//! when they end: `xrdcp` itself looks only every 2.5 seconds whether a copy is done.

use std::thread;

use testkit::Result;
use xroot_wire::request::{Request, SyncFile};
use xroot_wire::{CgiBuilder, FileHandle, OpenOptions, Stage, ThirdParty};

use super::gsi::Login;
use super::session::{XrootSession, failed};
use crate::line::Door;

/// What the destination shows to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// The key that the client gave to both (rendezvous).
    Key,
    /// The proxy that the client delegated to it (TPC Lite).
    Proxy,
}

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
    pub(crate) way: Way,
}

/// What one copy is ordered in.
pub(crate) struct Sessions {
    source: XrootSession,
    destination: XrootSession,
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
        self.run_in(&mut self.sessions(None)?)
    }

    /// A session with each of the two, for `login` where they want to know who that is.
    pub(crate) fn sessions(&self, login: Option<&Login>) -> Result<Sessions> {
        let open = |port, login| XrootSession::log_in(&Door { port, tls: None }, true, login);
        let plain = login.map(|login| Login {
            delegates: false,
            ..login.clone()
        });
        Ok(Sessions {
            source: open(self.source_port, plain.as_ref())?,
            destination: open(self.destination_port, login)?,
        })
    }

    /// Does the copy.
    pub(crate) fn run_in(&self, sessions: &mut Sessions) -> Result<()> {
        match self.way {
            Way::Key => self.by_key(sessions),
            Way::Proxy => self.by_proxy(&mut sessions.destination),
        }
    }

    fn by_key(&self, sessions: &mut Sessions) -> Result<()> {
        let Sessions { source, destination } = sessions;
        let placement = source.open_to_read(&self.placement())?;
        source.close(placement.handle)?;
        let target = self.open_target(destination)?;
        // The first prepares the copy; the second begins it, and is answered when it has ended.
        destination.ask(&sync(target))?;
        let origin = source.open_to_read(&self.origin())?;
        destination.ask(&sync(target))?;
        source.close(origin.handle)?;
        destination.close(target)
    }

    fn by_proxy(&self, destination: &mut XrootSession) -> Result<()> {
        let target = self.open_target(destination)?;
        destination.ask(&sync(target))?;
        destination.ask(&sync(target))?;
        destination.close(target)
    }

    fn open_target(&self, destination: &mut XrootSession) -> Result<FileHandle> {
        let options =
            OpenOptions::TRUNCATE | OpenOptions::UPDATE | OpenOptions::ASYNCHRONOUS | OpenOptions::RETURN_STAT;
        Ok(destination.open_file(&self.target(), options)?.handle)
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
            // XRootD takes the request for a third-party copy by its key, even with a proxy.
            key: Some(&self.key),
            source: Some(&source),
            source_path: Some(&self.source_path),
            delegation_source: Some(&source),
            delegation: Some(match self.way {
                Way::Key => "0",
                Way::Proxy => "1",
            }),
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

fn sync(handle: FileHandle) -> Request<'static> {
    Request::Sync(SyncFile { handle })
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
            way: Way::Key,
        };
        assert_eq!(copy.placement(), "/data/a?tpc.stage=placement");
        assert_eq!(copy.origin(), "/data/a?tpc.dst=localhost&tpc.key=k&tpc.stage=copy");
        assert_eq!(
            copy.target(),
            "/data/b?oss.asize=7&tpc.dlg=localhost:1&tpc.dlgon=0&tpc.key=k&tpc.lfn=/data/a&tpc.spr=root\
             &tpc.src=localhost:1&tpc.stage=copy&tpc.str=1&tpc.tpr=root"
        );
        let copy = Copy {
            way: Way::Proxy,
            ..copy
        };
        assert_eq!(
            copy.target(),
            "/data/b?oss.asize=7&tpc.dlg=localhost:1&tpc.dlgon=1&tpc.key=k&tpc.lfn=/data/a&tpc.spr=root\
             &tpc.src=localhost:1&tpc.stage=copy&tpc.str=1&tpc.tpr=root"
        );
    }
}
