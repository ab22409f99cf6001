//! Target for the packets of XRootD's monitoring.

use monitoring_wire::{Batch, FileRecord, Record, Stream, decode};

/// Pieces of packets.
pub(crate) const PACKET_WORDS: &[&str] = &["u", "f", "=", "T", "\n&p=", "xroot/a.1:2@h", "\0\0\0\x18", "\x02\x01"];

/// The records of files that were read can be written, and read as the same.
pub(crate) fn packet(data: &[u8]) {
    let Ok(packet) = decode(data) else { return };
    let Record::Files {
        server_id,
        span_s,
        records,
    } = packet.record
    else {
        return;
    };
    let mut batch = Batch::new(span_s.0);
    for record in &records {
        // Of a path that is too long, the end is written.
        let is_cut = matches!(record, FileRecord::Opened(opened) if opened.path.len() > 1024);
        if is_cut || !batch.push(record) {
            return;
        }
    }
    let again = decode(&batch.packet(&mut Stream::new(packet.started_s), server_id, span_s.1));
    let Ok(Record::Files { records: again, .. }) = again.map(|packet| packet.record) else {
        panic!("unreadable")
    };
    // Sums of squares may be no numbers, which do not equal themselves.
    assert_eq!(format!("{again:?}"), format!("{records:?}"));
}
