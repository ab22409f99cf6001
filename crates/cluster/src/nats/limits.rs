//! Limits and periods on the message bus. Times are milliseconds.

/// Longest name of a node on the bus, in bytes.
pub const BUS_NAME_BYTES_MAX: usize = 64;
/// Longest prefix of all subjects, in bytes.
pub const PREFIX_BYTES_MAX: usize = 64;
/// Longest path in a message, in bytes.
pub const PATH_BYTES_MAX: usize = 4096;
/// Most servers of the bus in one configuration.
pub const SERVERS_MAX: usize = 16;

/// Time between two announcements of a node. It announces changes of its state at once.
pub const ANNOUNCE_INTERVAL_MS: u64 = 1_000;
/// A node whose announcement is not older is believed that it has told of all its names.
pub const OVERDUE_MS: u64 = 1_200;
/// Shortest time between two announcements of a node.
pub const ANNOUNCE_PAUSE_MS: u64 = 50;
/// Nodes that a redirector greets answer within this time, so that a thousand do not answer in the
/// same millisecond.
pub const GREETING_SPREAD_MS: u64 = 200;
/// A node that is silent for so long is lost. Only time in which the bus works counts.
pub const SILENCE_MS: u64 = 2_800;
/// How often a redirector looks for nodes that are silent.
pub const LOOK_INTERVAL_MS: u64 = 100;
/// How often a redirector sends itself a message, to know that the bus works.
pub const ECHO_INTERVAL_MS: u64 = 250;
/// The bus counts as away when no such message of this age or younger has come back.
pub const ECHO_TIME_MS: u64 = 1_000;
/// It works again when one comes back in this time: less, so that a slow bus does not come and go.
pub const ECHO_BACK_TIME_MS: u64 = 500;
/// How long a redirector that starts waits for nodes to announce themselves.
pub const SETTLE_TIME_MS: u64 = 1_500;
/// Largest announcement, in bytes.
pub const ANNOUNCEMENT_BYTES_MAX: usize = 16 * 1024;
/// Most exports, and most addresses of doors, in an announcement.
pub const ANNOUNCED_MAX: usize = 256;
/// Announcements of one node that are read in a second.
pub const ANNOUNCEMENTS_A_SECOND: u32 = 50;

/// Processes under the name of a node that a redirector remembers.
pub const SPEAKERS_MAX: usize = 4;
/// How often one of them must speak again after another to show that two servers use the name.
pub const SPEAKER_RETURNS_MIN: u32 = 3;
/// How long one alone must speak after that until the node is used again.
pub const TWO_SPEAKERS_MS: u64 = 10_000;

/// Largest message of changes, in bytes.
pub const CHANGES_BYTES_MAX: usize = 64 * 1024;
/// Most changes in one message.
pub const CHANGES_MAX: usize = 2_048;
/// Messages of changes of one node that are read in a second.
pub const CHANGES_A_SECOND: u32 = 5_000;
/// Changed names of one node that are noted in a second: twice what a renamed tree may bring at
/// once ([`HASHES_MAX`]).
pub const NAMES_A_SECOND: usize = 200_000;
/// How long nothing is noted of a node that has told more than that, and it counts as one that
/// tells no changes: a flood costs the time of one second in six.
pub const FLOOD_TIME_MS: u64 = 5_000;
/// Names that a node sends by their hashes when a tree came by a rename. If there are more, its
/// filter is fetched anew.
pub const HASHES_MAX: usize = 100_000;

/// Bits of a filter for each name that it has room for.
pub const FILTER_BITS: usize = 10;
/// Names that a new filter has room for beyond those that exist, as a share of them.
pub const FILTER_SPARE: f64 = 0.25;
/// Least names that a filter has room for.
pub const FILTER_NAMES_MIN: usize = 8_192;
/// Most names of one node in a filter. A node with more is asked about every name.
pub const FILTER_NAMES_MAX: usize = 40_000_000;
/// Default: memory of a redirector for the filters of all nodes, in bytes.
pub const FILTERS_BYTES: usize = 512 << 20;
/// A filter is built anew when so many of its names, as a share, were removed.
pub const REMOVED_SHARE: f64 = 0.25;
/// Directories that were removed with what they contained count as so many names.
pub const REMOVED_TREE_NAMES: u64 = 100;
/// Shortest time between two builds of a filter.
pub const REBUILD_PAUSE_MS: u64 = 60_000;
/// Default: time after which a filter is built anew in any case, for names that came or went
/// without a door.
pub const REBUILD_INTERVAL_MS: u64 = 6 * 3_600_000;
/// Names that a walk through an export reads in a second.
pub const WALK_NAMES_A_SECOND: u64 = 20_000;
/// Directories that a walk has found and not yet read. With more, the walk is given up.
pub const WALK_DIRECTORIES_MAX: usize = 4_000_000;
/// Trees for which a node is asked about every name. With more, it is asked so for all exports.
pub const OPEN_TREES_MAX: usize = 64;

/// Bytes of a filter in one message.
pub const PIECE_BYTES: usize = 128 * 1024;
/// Filters that a redirector fetches at the same time.
pub const FETCHES_MAX: usize = 32;
/// Time for one piece of a filter.
pub const PIECE_TIME_MS: u64 = 2_000;
/// Shortest time between two fetches of the filter of one node.
pub const FETCH_PAUSE_MS: u64 = 2_000;

/// A redirector asks nodes whose names it does not know by one common message if there are more of
/// them than this.
pub const SINGLY_ASKED_MAX: usize = 16;
/// Questions that a node looks into at the same time; further ones wait.
pub const LOOKUPS_MAX: usize = 256;
/// Time for a node to look a name up.
pub const LOOKUP_TIME_MS: u64 = 1_500;
/// Longest reason for "cannot say", in bytes.
pub const REASON_BYTES_MAX: usize = 200;
/// Messages of one kind that wait to be read; further ones are lost, and the filters are in doubt.
/// A message has up to 64 KiB.
pub const WAITING_MAX: usize = 4_096;
/// Placements that a redirector remembers until their node announces the file.
pub const PLACEMENTS_MAX: usize = 65_536;
/// Messages of other redirectors about new files that are read in a second.
pub const COMING_A_SECOND: u32 = 10_000;
/// New directories that a redirector remembers, about which it asks all nodes.
pub const NEW_DIRECTORIES_MAX: usize = 4_096;

/// Time to connect to a server of the bus, in which it greets.
pub const CONNECT_TIME_MS: u64 = 5_000;
/// First pause before another attempt to connect. It doubles up to [`RECONNECT_PAUSE_MAX_MS`].
pub const RECONNECT_PAUSE_MIN_MS: u64 = 100;
/// Longest pause before another attempt to connect.
pub const RECONNECT_PAUSE_MAX_MS: u64 = 2_000;
/// How often a connection is tried by a ping. It is left after two that were not answered.
pub const PING_INTERVAL_MS: u64 = 2_000;
/// Time limit to send a message without waiting for its outcome.
pub const SEND_TIME_MS: u64 = 2_000;

/// Time of a trial until the server of the bus has shown what it refuses.
pub const TRIAL_TIME_MS: u64 = 2_000;
/// Time of a trial in which nodes that are there have announced themselves.
pub const TRIAL_HEARD_MS: u64 = 1_500;
/// Most nodes whose announcements a trial keeps.
pub const ANNOUNCED_NODES_MAX: usize = 20_000;
/// Coming names that wait until other redirectors hear of them; they do not hear of further ones.
pub const COMING_MAX: usize = 4_096;
/// How long the bus must be away before nodes are looked at directly.
pub const AWAY_AFTER_MS: u64 = 1_000;
