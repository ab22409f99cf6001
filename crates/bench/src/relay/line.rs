//! Connections over the line: how they begin, move and end.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::queue::{Buffers, Chunk, Queue};

/// How long to rest when no connection can be accepted, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The line between those who connect and one address.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) to: SocketAddr,
    pub(super) one_way: Duration,
    pub(super) window_bytes: u64,
    pub(super) buffers: Arc<Buffers>,
}

impl Line {
    /// Accepts connections until this is dropped, which breaks all of them.
    pub(super) async fn serve(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((client, _)) => {
                        connections.spawn(self.clone().connect(client));
                    }
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    /// One connection, from its first packet on. The kernel has told the client already that it
    /// stands, which it would have learnt after a round trip: only then is heard what it says.
    async fn connect(self, client: TcpStream) {
        sleep(self.one_way).await;
        let Ok(server) = TcpStream::connect(self.to).await else {
            sleep(self.one_way).await;
            break_off(&client);
            return;
        };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let forth = async {
            sleep(self.one_way).await;
            self.carry(&client, &server).await
        };
        if tokio::try_join!(forth, self.carry(&server, &client)).is_err() {
            break_off(&client);
            break_off(&server);
        }
    }

    /// Carries one direction to its end, and tells the other side of it.
    async fn carry(&self, from: &TcpStream, to: &TcpStream) -> io::Result<()> {
        let queue = Queue::new(self.one_way, self.window_bytes);
        let taking = async {
            loop {
                let room = queue.room().await;
                let chunk = self.read(from, room).await?;
                let is_end = chunk.is_none();
                queue.push(chunk);
                if is_end {
                    return Ok(());
                }
            }
        };
        let giving = async {
            while let Some(chunk) = queue.pop().await {
                write_all(to, chunk.bytes()).await?;
                queue.arrived(chunk.bytes().len());
                self.buffers.recycle(chunk);
            }
            SockRef::from(to).shutdown(Shutdown::Write)
        };
        tokio::try_join!(taking, giving).map(|((), ())| ())
    }

    /// What has come, at most `room` bytes; `None` at the end. A connection that waits holds no
    /// buffer.
    async fn read(&self, from: &TcpStream, room: usize) -> io::Result<Option<Chunk>> {
        loop {
            from.readable().await?;
            let mut buffer = self.buffers.take();
            match from.try_read(&mut buffer[..room]) {
                Ok(0) => return Ok(None),
                Ok(count) => return Ok(Some(self.buffers.chunk(buffer, count))),
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => self.buffers.put_back(buffer),
                Err(cause) => return Err(cause),
            }
        }
    }
}

async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

/// Lets the other side see a connection that broke, and not one that ended, when the socket is
/// dropped.
fn break_off(socket: &TcpStream) {
    let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
}
