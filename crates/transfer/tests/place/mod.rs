//! A stored file, and a connection in clear text to send it over.

use std::sync::Arc;
use std::time::Duration;

use endpoint::Store;
use net::{Role, Stream, Waits};
use storage::{Posix, PosixOptions, ReadHandle};
use tempfile::TempDir;
use tokio::net::TcpStream;
use types::LogicalPath;

/// The file `f` in a separate directory.
pub(crate) struct StoredFile {
    pub(crate) reader: Arc<dyn ReadHandle>,
    pub(crate) content: Vec<u8>,
    pub(crate) directory: TempDir,
}

impl StoredFile {
    pub(crate) async fn with(content: Vec<u8>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("f"), &content).unwrap();
        let posix = Posix::open(directory.path(), &PosixOptions::default()).unwrap();
        let store = Store::new(Arc::new(posix));
        let reader = store.open(&LogicalPath::parse("/f").unwrap()).await.unwrap();
        Self {
            reader,
            content,
            directory,
        }
    }
}

/// Our end and the other one.
pub(crate) async fn pair() -> (Stream, TcpStream) {
    let listener = net::listen::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (near, _) = listener.accept().await.unwrap();
    let waits = Waits {
        stall: Duration::from_secs(10),
        ..Waits::default()
    };
    (Stream::clear(near, Role::Client, waits), far)
}
