//! Limits and constants of a cluster. Times are milliseconds.

/// Most nodes behind one redirector.
pub const NODES_MAX: usize = 10_000;
/// Nodes of one name that are remembered; more are asked for again when all are needed.
pub const HOLDERS_MAX: usize = 4;
/// How long a location is believed without being asked again. Nodes tell of changes earlier.
pub const LOCATION_TIME_MS: u64 = 600_000;
/// How long "no node has it" is believed.
pub const ABSENCE_TIME_MS: u64 = 1_000;
/// How long the readers of one name are sent to the same node, whose page cache then has it.
pub const STICKY_TIME_MS: u64 = 5_000;
/// A node that is busier than this loses its sticky readers.
pub const STICKY_BUSY_MAX: f64 = 0.9;
/// After this time without news, a node's load is not known any more, and its own count of clients
/// that were sent there decides.
pub const STATUS_TIME_MS: u64 = 15_000;
/// How long a client that was sent to a node counts as load there if the node tells nothing.
pub const SENT_TIME_MS: u64 = 10_000;
/// Transfers per weight at which a node counts as wholly busy if it tells nothing else.
pub const TRANSFERS_FULL: f64 = 64.0;
/// Waiting time of requests at which a node counts as wholly busy.
pub const WAIT_FULL_MS: f64 = 1_000.0;
/// How much a wholly busy node's fill level is raised when a place for a new file is chosen.
pub const BUSY_AS_FILL: f64 = 0.25;
/// Room that a new file of unknown size is counted with.
pub const UNKNOWN_SIZE_BYTES: u64 = 1 << 30;
/// Room that is never given away on a node, as a share of its size.
pub const SPARE_SHARE: f64 = 0.01;
/// Most of a node's free room that is kept for the files of one client.
pub const CLIENT_ROOM_SHARE: f64 = 0.25;
/// Most of a node's room that is kept for announced files.
pub const RESERVED_ROOM_SHARE: f64 = 0.5;
/// How long room is kept for an announced file that does not come.
pub const RESERVATION_TIME_MS: u64 = 60_000;
/// Most reservations at one time; the oldest go first.
pub const RESERVATIONS_MAX: usize = 100_000;
/// How long nodes have to answer a question.
pub const ANSWER_TIME_MS: u64 = 2_000;
/// How long others are waited for after the first node that has the file has answered.
pub const ANSWER_GRACE_MS: u64 = 5;
/// Most questions that a server of a list is asked at the same time; others wait.
pub const NODE_QUESTIONS_MAX: usize = 64;
/// Most uploads that pass through to one node at the same time. The node counts them as those of
/// one client, and with more, slow clients would keep the redirector itself from asking it.
pub const NODE_RELAYS_MAX: usize = 256;
/// Most names that are asked for at the same time.
pub const QUESTIONS_MAX: usize = 20_000;
/// How long a new file is expected at the node to which its client was sent: the next client that
/// stores the same name follows.
pub const EXPECTED_TIME_MS: u64 = 600_000;
/// How often a redirector tells that an upload that passes through it still runs. Far shorter than
/// [`EXPECTED_TIME_MS`].
pub const STILL_EXPECTED_EVERY_MS: u64 = 60_000;
/// How long a rename that was refused because a file of the name was expected goes before the next
/// file, once that one is not expected any more.
pub const WAITING_TIME_MS: u64 = 60_000;
/// Most names for which such renames wait.
pub const WAITING_RENAMES_MAX: usize = 1_000;
/// Most names that are expected at one time; the oldest give way.
pub const EXPECTED_MAX: usize = 20_000;
/// The first of two nodes that were drawn for a new file takes it unless the other one is better by
/// so much: what two redirectors know of the nodes differs by less.
pub const SCORE_MARGIN: f64 = 0.01;
/// Most directories above a name that are expected with it; the nearest.
pub const EXPECTED_PARENTS_MAX: usize = 32;
/// Directories that are remembered, so that they are not asked for with each new file in them.
pub const DIRECTORIES_MAX: usize = 20_000;
/// How long a node that went away makes "no node has it" uncertain: a server that starts again. As
/// long as XRootD's managers wait before they drop a server.
pub const AWAY_TIME_MS: u64 = 600_000;
/// How long a node that went away is waited for by clients: as long as a server takes that is
/// started again.
pub const RETURN_TIME_MS: u64 = 10_000;
/// How often a rename asks for a node that went away meanwhile.
pub const RETURN_LOOK_MS: u64 = 500;
/// How long a rename waits until another one that has given the same name on another node, and is
/// to give way, is undone.
pub const RIVAL_TIME_MS: u64 = 1_000;
/// How long one that has given way waits whether the other does so, too, so that the file that both
/// would replace gets its name again. Longer than [`RIVAL_TIME_MS`].
pub const RIVALS_GONE_TIME_MS: u64 = 3_000;
/// How often they look.
pub const RIVAL_LOOK_MS: u64 = 100;
/// When a client that finds only nodes which have just started shall ask again.
pub const STARTING_RETRY_MS: u64 = 5_000;
/// How long a client waits while it is open whether a silent node has died.
pub const SETTLE_TIME_MS: u64 = 3_000;
/// How often each server of a list is looked at.
pub const PROBE_EVERY_MS: u64 = 1_000;
/// How long it has to answer.
pub const PROBE_TIME_MS: u64 = 1_000;
/// How often in a row it may be silent before it counts as lost.
pub const LOST_PROBES: u32 = 2;
/// Longest status of a node.
pub const STATUS_BYTES_MAX: usize = 64 << 10;
/// How long the nodes have to begin a listing. What comes later is left out.
pub const LISTING_TIME_MS: u64 = 10_000;
/// Time that each entry of a node adds to its time for the rest.
pub const LISTED_ENTRY_MS: u64 = 10;
/// Most entries of a merged listing.
pub const LISTED_MAX: usize = 20_000_000;
/// Most exports that a node announces; what it has in others is found by asking.
pub const ANNOUNCED_EXPORTS_MAX: usize = 64;
/// Shortest time over which the load of processors is measured: they are counted in hundredths of
/// a second.
pub const LOAD_TIME_MS: u64 = 500;
/// Time over which loads and rates are averaged.
pub const MEAN_TIME_MS: u64 = 5_000;
/// Longest line of a node that is followed.
pub const NODE_LINE_BYTES_MAX: usize = 2 << 20;
/// A node that is followed and says nothing for so long is lost: its status comes each second.
pub const FOLLOWED_SILENCE_MS: u64 = 2_500;
/// How often the hosts of nodes are looked up.
pub const HOSTS_EVERY_MS: u64 = 60_000;
/// Hosts that are looked up at one time.
pub const HOST_LOOKUPS_MAX: usize = 8;
/// A node that has answered no question for so long, and not [`MUTE_QUESTIONS`], is not asked any
/// more.
pub const MUTE_AFTER_MS: u64 = 5_000;
/// Questions without an answer after which a node gets no new files.
pub const MUTE_QUESTIONS: u32 = 3;
/// By how much the clock of a node may differ, as the times in capabilities.
pub const CLOCK_OFF_MAX_MS: u64 = 10_000;
/// How long it must differ by more: a message may be late.
pub const CLOCK_AFTER_MS: u64 = 3_000;
/// How long it is not asked, unless it is seen to answer before.
pub const MUTE_TIME_MS: u64 = 600_000;
/// How often a node that is not asked is tried.
pub const MUTE_PROBE_MS: u64 = 1_000;
/// How long a node has to make a directory, or to remove or rename a name.
pub const ACT_TIME_MS: u64 = 20_000;
/// Names of one node that are noted in a second. It must wait with more.
pub const FOLLOWED_NAMES_A_SECOND: usize = 20_000;
/// Largest room in answers to clients, in bytes: XRootD's read signed numbers of 64 bits, and xrdfs
/// 5.5 hangs on larger ones.
pub const ROOM_BYTES_MAX: u64 = i64::MAX.unsigned_abs();
/// How long a location is believed on a node that does not tell which names change.
pub const UNTOLD_TIME_MS: u64 = 5_000;
/// Names that a client has tried that are looked at.
pub const TRIED_MAX: usize = 64;

/// Most nodes that `crossload why` lists with the reason why they get no client.
pub const LEFT_OUT_MAX: usize = 100;
