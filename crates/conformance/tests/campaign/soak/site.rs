//! The server under soak, the other sides, and the credentials of its clients.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conformance::{Lab, Reply, Scripted, Seen, bytes, macaroon};
use testkit::{
    Access, Authority, Crossload, CrossloadOptions, Direction, Export, Fault, KeyKind, ProxyFault, ProxyOptions, Relay,
    Result, TokenIssuer, User, free_port, require, secrets,
};

use crate::dice::Dice;

const JANE: &str = "/O=Crossload test/CN=Jane Doe";
const MARY: &str = "/O=Crossload test/CN=Mary Roe";
const SCOPES: &str = "storage.read:/ storage.create:/ storage.modify:/";
/// Sizes of the files that are read: around pages and buffers.
const SIZES: [usize; 4] = [1, 4_097, 70_000, 1_200_000];
/// The size of [`LARGE`], more than sockets hold.
pub(crate) const LARGE_BYTES: usize = 8 << 20;
/// The name of a file that is never read to its end.
pub(crate) const LARGE: &str = "large";
/// What passes before a relay cuts.
const UNTIL_CUT: u64 = 300_000;
/// Names that are written again and again: so many that none comes up again before the server has
/// noticed that its last client left, on a busy machine too.
const NAMES: usize = 512;
/// How long the slow relay holds each piece of 16 KiB.
const PIECE_DELAY: Duration = Duration::from_millis(20);
/// How much later the next proxy of a holder ends, in seconds: the server asks for it then.
const DELEGATION_STEP_S: i64 = 1800;
/// Delegations of a holder, until that would be more than hours.
const DELEGATIONS_EACH: usize = 5;
/// Tokens in use: more than the server remembers, so that it has to forget some.
const TOKENS: usize = 24;
/// How long a token is good: longer than a soak.
const LIFETIME_S: i64 = 24 * 3600;
/// Quick to give up what fails on purpose. The sessions of TLS would fill 32 MiB one by one.
const LIMITS: &str = "attempts = 4\nstall_timeout = \"5s\"\nfirst_byte_timeout = \"10s\"\nconnect_timeout = \"5s\"\n\
                      marker_period = \"500ms\"\ntls_session_bytes = \"256KiB\"\n";

/// A file that is there to be read.
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
}

/// Everything that a round needs.
pub(crate) struct Site {
    // Relays first: a stopping server waits for what it is sending.
    /// To the peer; cuts each connection after a while.
    pub(crate) cutting: Relay,
    /// To the peer; slow enough for a client to leave in the middle.
    pub(crate) slow: Relay,
    /// A source that lies.
    pub(crate) liar: Scripted,
    pub(crate) server: Crossload,
    /// Another server of ours: what the one under soak copies from and to.
    pub(crate) peer: Crossload,
    /// A source that lets in only Jane, by gsi.
    pub(crate) guarded: Crossload,
    /// A port where nothing listens.
    pub(crate) dead_port: u16,
    pub(crate) files: Vec<Stored>,
    pub(crate) tokens: Vec<String>,
    /// Tokens that are not believed.
    pub(crate) bad_tokens: Vec<String>,
    /// A token without a right.
    pub(crate) weak_token: String,
    pub(crate) macaroons: Vec<String>,
    pub(crate) proxies: Vec<Shown>,
    pub(crate) bad_proxies: Vec<Shown>,
    /// How many proxies were made for logins that delegate.
    delegating: AtomicUsize,
    /// An authority that did not sign the server's certificate.
    pub(crate) strange: Authority,
    written: AtomicUsize,
    log: PathBuf,
    _issuer: TokenIssuer,
    pub(crate) lab: Lab,
}

/// A certificate or proxy, and the file that it is in.
pub(crate) struct Shown {
    pub(crate) user: User,
    pub(crate) file: String,
}

impl Site {
    pub(crate) fn start() -> Result<Self> {
        for program in ["curl", "xrdcp", "xrdfs"] {
            require(program)?;
        }
        let lab = Lab::new("soak")?;
        let issuer = TokenIssuer::start(lab.authority())?;
        let log = lab.fresh("log");
        let server = lab.crossload(options(&lab, &issuer, &log)?)?;
        let peer = lab.crossload(peer_options(&lab))?;
        let guarded = lab.crossload(guarded_options(&lab))?;
        let relay = |direction_and_more: Fault| {
            let relay = Relay::start(SocketAddr::from((Ipv4Addr::LOCALHOST, peer.port())))?;
            relay.set_fault(direction_and_more, usize::MAX);
            Ok::<_, testkit::Error>(relay)
        };
        let tokens: Vec<String> = (0..TOKENS)
            .map(|number| {
                let draft = issuer.token().scope(SCOPES).lifetime_s(LIFETIME_S);
                draft.claim("jti", format!("soak-{number}")).mint()
            })
            .collect();
        let jane = lab.authority().issue_user(JANE)?;
        let site = Self {
            cutting: relay(Fault::CutAfter(Direction::ToClient, UNTIL_CUT))?,
            slow: relay(Fault::Delay(Direction::ToClient, PIECE_DELAY))?,
            liar: Scripted::start(lie),
            dead_port: free_port()?,
            files: SIZES
                .iter()
                .map(|size| Stored {
                    name: format!("file-{size}"),
                    content: bytes(*size, *size as u64),
                })
                .collect(),
            macaroons: macaroons(&lab, &server, &tokens),
            tokens,
            bad_tokens: bad_tokens(&issuer),
            weak_token: issuer.token().scope("openid").lifetime_s(LIFETIME_S).mint(),
            proxies: proxies(&lab, &jane)?,
            bad_proxies: bad_proxies(&lab, &jane)?,
            delegating: AtomicUsize::new(0),
            strange: Authority::new(&lab.scratch().create("strange")?)?,
            server,
            peer,
            guarded,
            written: AtomicUsize::new(0),
            log,
            _issuer: issuer,
            lab,
        };
        site.put_files()?;
        Ok(site)
    }

    /// The directories behind `/data` and `/open` of the server, `/data` and `/jane` of the peer,
    /// and `/data` of the guarded source.
    fn put_files(&self) -> Result<()> {
        let large = bytes(LARGE_BYTES, 8);
        for export in [
            self.server.data().to_owned(),
            self.server.data().with_file_name("open"),
            self.peer.data().to_owned(),
            self.peer.data().with_file_name("jane"),
            self.guarded.data().to_owned(),
        ] {
            for file in &self.files {
                fs::write(export.join(&file.name), &file.content)?;
            }
            fs::write(export.join(LARGE), &large)?;
        }
        Ok(())
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.lab.authority().ca_file()
    }

    /// The name of a file to be written, below an export.
    pub(crate) fn target(&self, export: &str) -> String {
        let number = self.written.fetch_add(1, Ordering::Relaxed) % NAMES;
        format!("/{export}/written-{number}")
    }

    /// A proxy whose holder is asked for delegation: it ends within hours, and later than the one
    /// before, or its holder is a new one.
    pub(crate) fn next_delegating(&self) -> User {
        let number = self.delegating.fetch_add(1, Ordering::Relaxed);
        let holder = format!("{MARY} {}", number / DELEGATIONS_EACH);
        let options = ProxyOptions {
            ends_s: 3600 + (number % DELEGATIONS_EACH) as i64 * DELEGATION_STEP_S,
            ..ProxyOptions::default()
        };
        let holder = self.lab.authority().issue_user(&holder).expect("a user");
        holder.proxy_with(&options).expect("a proxy")
    }

    /// One of the files to be read.
    pub(crate) fn file(&self, dice: &mut Dice) -> &Stored {
        &self.files[dice.below(self.files.len())]
    }

    /// The longest of them.
    pub(crate) fn longest(&self) -> &Stored {
        &self.files[self.files.len() - 1]
    }

    /// Lets the server begin a new log and read its configuration again, after a search of the old
    /// log for secrets; a log of all requests would fill the memory in which it lies.
    pub(crate) fn turn_log_over(&mut self) -> Result<()> {
        let old = self.log.with_extension("old");
        fs::rename(&self.log, &old)?;
        self.server.process().hang_up()?;
        let made = || self.log.exists().then_some(());
        self.server
            .process()
            .wait_for("a new log", Duration::from_secs(30), |_| made())?;
        secrets::demand_none("the server's log", &String::from_utf8_lossy(&fs::read(&old)?));
        fs::remove_file(&old)?;
        Ok(())
    }
}

/// The server under soak: `/data` for those who may, `/open` for all.
fn options(lab: &Lab, issuer: &TokenIssuer, log: &std::path::Path) -> Result<CrossloadOptions> {
    let mut options = lab.options("server");
    let (own, open) = (
        options.directory.clone(),
        options.exports[0].directory.with_file_name("open"),
    );
    options.exports[0].anonymous = Access::None;
    options.exports.push(Export {
        path: "/open".to_owned(),
        ..Export::open(&open)
    });
    LIMITS.clone_into(&mut options.limits);
    let voms = lab.authority().issue_voms_server("testers")?;
    let voms_directory = lab.fresh("vomsdir");
    voms.write_lsc(&voms_directory)?;
    options.more = format!(
        "[log]\nfile = {log:?}\n\
         [xroot]\nauthentication = [\"token\", \"gsi\", \"unix\", \"host\"]\n\
         [tokens]\nremembered = 8\n\
         [[issuer]]\nurl = \"{}\"\nvo = \"wlcg\"\nbase_paths = [\"/data\"]\n\
         [x509]\ntrust_directory = {:?}\nvoms_directory = {voms_directory:?}\n\
         [delegation]\ndirectory = {:?}\nkey_file = \"delegation.key\"\n\
         [[rule]]\nwho = \"dn:{JANE}\"\npath = \"/data\"\nmay = [\"all\"]\n",
        issuer.url(),
        lab.authority().trust_directory(),
        own.join("delegated"),
    );
    Ok(options)
}

/// The peer: `/data` for all, `/jane` for Jane alone.
fn peer_options(lab: &Lab) -> CrossloadOptions {
    let mut options = lab.options("peer");
    LIMITS.clone_into(&mut options.limits);
    options.exports.push(Export {
        path: "/jane".to_owned(),
        anonymous: Access::None,
        ..Export::open(&options.exports[0].directory.with_file_name("jane"))
    });
    options.more = format!(
        "[log]\nrequests = false\n[xroot]\nauthentication = []\n[x509]\ntrust_directory = {:?}\n\
         [[rule]]\nwho = \"dn:{JANE}\"\npath = \"/jane\"\nmay = [\"all\"]\n",
        lab.authority().trust_directory(),
    );
    options
}

/// The guarded source: `/data` for Jane alone, who must log in by gsi.
fn guarded_options(lab: &Lab) -> CrossloadOptions {
    let mut options = lab.options("guarded");
    options.exports[0].anonymous = Access::None;
    options.macaroons = false;
    LIMITS.clone_into(&mut options.limits);
    options.more = format!(
        "[log]\nrequests = false\n[xroot]\nauthentication = [\"gsi\"]\n[x509]\ntrust_directory = {:?}\n\
         [[rule]]\nwho = \"dn:{JANE}\"\npath = \"/data\"\nmay = [\"read\"]\n",
        lab.authority().trust_directory(),
    );
    options
}

/// Macaroons that carry the rights of a token.
fn macaroons(lab: &Lab, server: &Crossload, tokens: &[String]) -> Vec<String> {
    let url = server.url("/data/");
    tokens[..4]
        .iter()
        .map(|token| {
            let header = format!("Authorization: Bearer {token}");
            macaroon(lab, &url, &["activity:DOWNLOAD,UPLOAD,LIST"], &[&header])
        })
        .collect()
}

/// Tokens that are not believed.
fn bad_tokens(issuer: &TokenIssuer) -> Vec<String> {
    let sound = issuer.token().scope(SCOPES);
    let mut cut = sound.mint();
    cut.truncate(cut.len() - 20);
    vec![
        sound.clone().lifetime_s(-3600).mint(),
        sound.clone().audience("https://elsewhere.example").mint(),
        sound.claim("iss", "https://unknown.example").mint(),
        cut,
        "no-token-at-all".to_owned(),
    ]
}

fn proxies(lab: &Lab, jane: &User) -> Result<Vec<Shown>> {
    let options = |key, is_limited| ProxyOptions {
        key,
        is_limited,
        ..ProxyOptions::default()
    };
    let proxies = [
        jane.proxy()?,
        jane.proxy()?.proxy()?,
        jane.proxy_with(&options(KeyKind::Rsa2048, true))?,
        jane.proxy_with(&options(KeyKind::EcdsaP256, false))?,
    ];
    proxies.into_iter().map(|user| shown(lab, user)).collect()
}

fn bad_proxies(lab: &Lab, jane: &User) -> Result<Vec<Shown>> {
    let broken = |fault| ProxyOptions {
        fault: Some(fault),
        ..ProxyOptions::default()
    };
    let expired = ProxyOptions {
        ends_s: -60,
        ..ProxyOptions::default()
    };
    let proxies = [
        jane.proxy_with(&expired)?,
        jane.proxy_with(&broken(ProxyFault::WrongSignature))?,
        jane.proxy_with(&broken(ProxyFault::OtherName))?,
    ];
    proxies.into_iter().map(|user| shown(lab, user)).collect()
}

fn shown(lab: &Lab, user: User) -> Result<Shown> {
    let file = user.write_proxy(&lab.fresh("proxy"))?;
    Ok(Shown {
        user,
        file: file.to_string_lossy().into_owned(),
    })
}

/// A source that refuses `/refused`, breaks `/cut` off, and declares a wrong checksum of all else.
fn lie(seen: &Seen) -> Reply {
    let content = vec![7; 100_000];
    match seen.path.as_str() {
        "/refused" => Reply::whole(seen, "403 Forbidden", &[], b"not for you\n"),
        "/cut" if seen.method != "HEAD" => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\nETag: \"1\"\r\n\r\n";
            Reply::SayAndClose([&head[..], &content].concat())
        }
        "/cut" => Reply::Say(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\nETag: \"1\"\r\n\r\n".to_vec()),
        _ => Reply::whole(seen, "200 OK", &["Digest: adler32=01020304"], &content),
    }
}
