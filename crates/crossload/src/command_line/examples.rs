//! What stands below the options in `--help`: examples and exit codes. A test parses each example.

/// Exit codes, below the help of the program; `docs/exit-codes.md` has all.
pub(crate) const EXIT_CODES: &str = "\
Exit codes of the client:
    0  everything was done
    1  some of several files failed, or were left out
    2  no such file or directory
    3  the answer is no: trees or checksums differ, or a file is not on tape
    4  interrupted by Ctrl-C, SIGTERM or SIGHUP
    5  the server or the storage failed
   11  the server asks to try again later
   13  permission denied, or no credential
   17  the destination exists
   20  not a directory
   21  a directory
   22  invalid command line, URL or value
   28  no space left
   38  not supported by the server
   61  no such attribute or checksum, or not in the cache
   71  TLS or the protocol failed: certificate, wrong port
   74  the data are not what they should be: checksum or size
  104  the connection was closed too early
  110  timeout, of --timeout or of the server
  111  connection refused: no server on this port
  113  unknown host, or no route to it

Others are in docs/exit-codes.md. With CROSSLOAD_EXIT_CODES=gfal they are those of gfal's tools.";

pub(super) const SERVE: &str = "\
Examples:
  # A directory that everyone may read and write
  crossload serve /srv/data --write

  # The same over TLS, for other hosts
  crossload serve /srv/data --listen [::]:8443 \\
      --cert hostcert.pem --key hostkey.pem

  # A server with tokens, certificates, rules and quotas
  crossload check --config /etc/crossload/crossload.toml
  crossload serve --config /etc/crossload/crossload.toml

--listen, --admin, --cert and --key replace keys of the file. The server stops on SIGTERM or Ctrl-C.";

pub(super) const COPY: &str = "\
Examples:
  # Upload a file, and download it again
  crossload copy picture.jpg https://a.example.org/data/picture.jpg
  crossload copy root://a.example.org//data/picture.jpg .

  # Copy from server to server: the client only gives the order
  crossload copy https://a.example.org/data/f https://b.example.org/data/f

  # Between XRootD servers, with a proxy of yours for the destination
  crossload copy --delegate root://a.example.org//data/f \\
      root://b.example.org//data/f

  # Copy a directory over four connections per file, and make missing parents
  crossload copy -r -p -n 4 davs://a.example.org/data/set \\
      root://b.example.org//data

  # Its contents, without logs and what is older than a week
  crossload copy -r --exclude '*.log' --max-age 7d set/ \\
      https://a.example.org/data/week

  # Compare with a known checksum
  crossload copy -K adler32:1a2b3c4d https://a.example.org/data/f /scratch/f

Exit code: 0 all files copied; for one file the errno of its failure, as gfal-copy has it; for \
several files 1 if some failed; 4 interrupted; 110 --timeout.";

pub(super) const SYNC: &str = "\
Examples:
  # What would be copied and deleted?
  crossload sync --delete --dry-run set/ https://a.example.org/data/set

  # Do it, but not if it deletes more than a hundred files
  crossload sync --delete --max-delete 100 set/ \\
      https://a.example.org/data/set

Exit code: 0 the destination is like the source; 1 something failed, was left out or not deleted; \
4 interrupted; 110 --timeout.";

pub(super) const COMPARE: &str = "\
Examples:
  crossload compare https://a.example.org/data/set \\
      root://b.example.org//data/set
  crossload compare --compare size --json set https://a.example.org/data/set

Exit code: 0 equal, 3 different, 1 something could not be compared; else the errno of what ended \
the command.";

pub(super) const LS: &str = "\
Examples:
  crossload ls https://a.example.org/data/
  crossload ls -l -h root://a.example.org//data
  crossload ls --json --token-file token davs://a.example.org/atlas/

  # Everything below; and a directory of millions of files, as they come
  crossload ls -l -R --sort time davs://a.example.org/atlas/
  crossload ls --sort none root://a.example.org//data/large

Exit code: 0 all listed; for one place the errno of its failure, as gfal-ls has it; 1 if some of \
several places or directories below could not be listed.";

pub(super) const DU: &str = "\
Examples:
  # Each directory below, as du prints them; the sum alone
  crossload du davs://a.example.org/atlas/
  crossload du -s -h root://a.example.org//data

Exit code: 0 all was added up; for one place the errno of its failure; 1 if something below could \
not be listed.";

pub(super) const FIND: &str = "\
Examples:
  # Large files that did not change for a year
  crossload find --type file --min-size 10GiB --min-age 365d \\
      davs://a.example.org/atlas/

  # Remove what matches, one request each
  crossload find --name '*.tmp' root://a.example.org//data |
      crossload rm --from-file -

Exit code: 0 all was searched, whether or not something fits; for one place the errno of its \
failure; 1 if something below could not be listed.";

pub(super) const TREE: &str = "\
Examples:
  crossload tree -L 2 davs://a.example.org/atlas/
  crossload tree -h root://a.example.org//data/set

Exit code: 0 all was listed; for one place the errno of its failure; 1 if something below could \
not be listed.";

pub(super) const SUM: &str = "\
Examples:
  # One file, as gfal-sum; all files of a directory
  crossload sum davs://a.example.org/data/f adler32
  crossload find --type file davs://a.example.org/data |
      crossload sum -a md5 --from-file - > list

  # Are they still the same?
  crossload sum -c list
  md5sum *.root | crossload sum -c -

Exit code: 0 all was printed or equal; for one file the errno of its failure, as gfal-sum has it; \
3 if a file of the list differs, 1 if some could not be read.";

pub(super) const HEAD: &str = "\
Examples:
  crossload head -n 20 davs://a.example.org/data/log.txt
  crossload head -c 4KiB root://a.example.org//data/f | xxd

Exit code: 0 all was printed; for one file the errno of its failure; 1 if some of several failed.";

pub(super) const TAIL: &str = "\
Examples:
  crossload tail -n 20 davs://a.example.org/data/log.txt
  crossload tail -c 1KiB root://a.example.org//data/f

Exit code: 0 all was printed; for one file the errno of its failure; 1 if some of several failed.";

pub(super) const RM: &str = "\
Examples:
  crossload rm davs://a.example.org/data/f root://b.example.org//data/g
  crossload rm -r --dry-run davs://a.example.org/data/set

  # What a list names, if it still exists
  crossload rm -f --from-file list

Exit code: 0 all was removed; for one name the errno of its failure, as gfal-rm has it; 1 if some \
of several could not be removed.";

pub(super) const CLEANUP: &str = "\
Examples:
  # What would be removed, without removing it
  crossload cleanup --dry-run s3s://s3.example.org/bucket

  # Everything below a prefix that began over twelve hours ago
  crossload cleanup --older-than 12h s3s://s3.example.org/bucket/run1";

pub(super) const DF: &str = "\
Examples:
  crossload df -h root://a.example.org//data davs://b.example.org/atlas/
  crossload df --json davs://b.example.org/atlas/

Exit code: 0 all was printed; for one place the errno of its failure; 1 if some of several failed, \
for example because a server does not report its space.";

pub(super) const TOUCH: &str = "\
Examples:
  crossload touch davs://a.example.org/data/ready

The time of an existing file can be changed only on this machine. Exit code: 0 all was done; for \
one place the errno of its failure; 1 if some of several failed.";

pub(super) const CHMOD: &str = "\
Examples:
  crossload chmod 640 root://a.example.org//data/f

Over HTTP permissions cannot be changed. Exit code: 0 all was done; for one place the errno of its \
failure; 1 if some of several failed.";

pub(super) const SHELL: &str = "\
Examples:
  crossload shell davs://a.example.org/data

  # A script
  printf 'cd set\\nrm old\\n' | crossload shell root://b.example.org//data

Exit code: 0; of a script, that of the first command that fails, which ends it.";

pub(super) const STAGE: &str = "\
Examples:
  # Ask, and wait until all files can be read
  crossload stage --wait --pin 12h davs://a.example.org/tape/f \\
      davs://a.example.org/tape/g

  # Ask, and look later; the first command prints the request's name
  crossload stage --from-file list
  crossload stage --status 7f3e2d10 --from-file list

Exit code: 0 all were asked for, with --wait all are online; 1 if some failed; else the errno of \
the failure.";

pub(super) const EVICT: &str = "\
Examples:
  crossload evict --request 7f3e2d10 davs://a.example.org/tape/f
  crossload evict root://b.example.org//tape/f

Exit code: 0 all were released; 1 if some failed; else the errno of the failure.";

pub(super) const ARCHIVED: &str = "\
Examples:
  # Can the copy elsewhere be removed?
  crossload archived davs://a.example.org/tape/f && rm f

Exit code: 0 all are on tape, 3 one is not; 1 if the storage does not say of some; else the errno \
of the failure.";

pub(super) const STDIO: &str = "\
Examples:
  # One request by hand
  echo '{\"id\":1,\"operation\":\"stat\",\"place\":\"/tmp\"}' | crossload stdio";

pub(super) const MACAROON: &str = "\
Examples:
  # A macaroon that lets its holder read /data for twelve hours
  crossload token macaroon https://a.example.org/data \\
      --activity DOWNLOAD,LIST --for 12h --output m
  crossload ls --token-file m https://a.example.org/data/";

pub(super) const PROXY_INFO: &str = "\
Examples:
  crossload proxy info

  # Does it last for the whole night?
  crossload proxy info --valid 12h

Exit code: 0 it lasts; 1 it has expired, or lasts less than --valid; 13 there is none, or it cannot \
be used.";

pub(super) const LOGIN: &str = "\
Examples:
  # For all commands about this remote
  crossload config remote add mysite davs://a.example.org/atlas \\
      --issuer https://iam.example.org/
  crossload login mysite --client-id my-client \\
      --scope storage.read:/ --scope storage.modify:/
  crossload ls mysite:data

Exit code: 0 logged in; 13 the issuer refuses, or the code was not entered in time; else the errno \
of the failure.";

pub(super) const EXPLAIN: &str = "\
Examples:
  # Ask a server what it would do
  crossload explain --op read --token-file token \\
      --url https://a.example.org/data/f

  # Decide by a configuration file, on the server's machine
  crossload explain --config crossload.toml --token token \\
      --op write --path /data/f

  # Why was this request refused?
  crossload explain 65f2a1c09b3d4e7f --admin http://127.0.0.1:9090

Exit code: 0 allowed, else the errno of the refusal.";

pub(super) const CHECK: &str = "\
Examples:
  crossload check --config /etc/crossload/crossload.toml

  # Is the port open from there?
  crossload check --from https://other.example.org/scratch/

  # For scripts
  crossload check --json --quiet --offline

Exit code: 0 nothing worse than notes, 1 warnings, 2 errors, 22 invalid command line.";

pub(super) const SMOKE: &str = "\
Examples:
  # One server over both protocols
  crossload smoke https://a.example.org/data/test \\
      root://a.example.org//data/test

  # With third-party copies from and to another server
  crossload smoke https://a.example.org/data/test \\
      --pull https://b.example.org/public/file \\
      --push https://b.example.org/data/test

  # Each morning: all endpoints of a file, mails to their administrators
  crossload smoke --list sites.toml --daily \\
      --mail smtp://localhost --mail-from smoke@example.org

Exit code: 0 all passed, 1 something failed, 2 something was skipped, 4 interrupted.";

pub(super) const REPORT: &str = "\
Examples:
  # A page, test cases for Jenkins, metrics for node_exporter
  crossload report run.json --html run.html --junit run.xml \\
      --prometheus /var/lib/node_exporter/mesh.prom

  # Mails about problems that yesterday's run lacks
  crossload report run.json --earlier yesterday.json \\
      --mail smtp://localhost --mail-from crossload@example.org

  # The page of the newest run at http://127.0.0.1:8080/
  crossload report run.json --serve 8080

Exit code: 0 all passed, 1 something failed, 2 something was skipped,
5 a file, mail or message was not written or sent.";

pub(super) const MESH: &str = "\
Examples:
  # A file of endpoints to begin with
  crossload mesh --init

  # What would be tried
  crossload mesh mesh.toml --dry-run

  # Only pulls, from and to one endpoint
  crossload mesh mesh.toml --topology star:PRAGUE --mode pull

  # Each hour, with the newest results in a file
  crossload mesh mesh.toml --every 1h --save newest.json

Exit code: 0 all passed, 1 something failed, 2 something was skipped, 4 interrupted.";

pub(super) const STRESS: &str = "\
Examples:
  # What 250 copies of 4 GB per hour and link would move
  crossload stress mesh.toml --dry-run

  # Five minutes of growing load over one link
  crossload stress mesh.toml --only PRAGUE --copies 60 --per 5m --size 1GB \\
      --ramp 2m --hold 3m --max-failures 20

Exit code: 0 all passed, 1 something failed, 2 something was skipped, 4 interrupted.";

pub(super) const BENCH: &str = "\
Examples:
  # One server, with a page of plots
  crossload bench bulk https://a.example.org/data/bench --html bulk.html

  # Two servers side by side
  crossload bench metadata a=https://a.example.org/data/bench \\
      b=root://b.example.org//data/bench

  # Third-party copies from the first to the second
  crossload bench tpc -c 1,10,100 \\
      https://a.example.org/data https://b.example.org/data

  # Before and after a change
  crossload bench bulk https://a.example.org/data/bench --json before.json
  crossload bench bulk https://a.example.org/data/bench --compare before.json

'crossload bench LOAD --help' lists the options of a load. Exit code: 0 all measured, 1 something \
failed, 130 interrupted.";

pub(super) const HISTORY: &str = "\
Examples:
  # Keep a report of bench, and look at what is kept
  crossload bench bulk https://a.example.org/data/bench --json bulk.json
  crossload history import bulk.json
  crossload history list

  # The newest run: how its endpoints stand, and since when what fails
  crossload history show

  # What has become worse; from cron, which mails what is printed
  crossload history check --quiet

  # Take the last ten runs of a mesh to another history
  crossload history export --instrument mesh --count 10
  crossload history import --history other.sqlite runs.json

  # Remove the runs of a machine whose clock was wrong
  crossload history remove --future

The file is crossload/history.sqlite in XDG_STATE_HOME, or in ~/.local/state. Exit code of check \
and compare: 0 nothing is worse, 1 something is.";

pub(super) const REMOTE_ADD: &str = "\
Examples:
  # A site with a token of its own
  crossload config remote add mysite davs://a.example.org/atlas \\
      --token-file ~/mysite.token
  crossload ls -l mysite:data

  # A server that only its own authority vouches for
  crossload config remote add lab root://b.example.org//data \\
      --cacert lab-ca.pem
  crossload copy -r mysite:set lab:

A local file whose name has a colon is written ./a:b.";

pub(super) const IMPORT_RCLONE: &str = "\
Examples:
  crossload config import rclone --dry-run
  crossload config import rclone ~/.config/rclone/rclone.conf

Exit code: 0 all were taken; 1 some were left out.";

pub(super) const REDIRECTOR: &str = "\
Examples:
  # Three servers under one name
  crossload redirector --node http://d1:8080 --node http://d2:8080 \\
      --node http://d3:8080 --listen [::]:8080 --write

  # With TLS and rules, in front of servers of any make
  crossload redirector --config /etc/crossload/redirector.toml";

pub(super) const WHY: &str = "\
Examples:
  # Which nodes have a file, and where are its readers sent?
  crossload why /data/f --redirector https://se.example.org:1094

  # Where would a new file of 4 GiB go?
  crossload why /data/new --write --size 4GiB \\
      --redirector https://se.example.org:1094

Exit codes: 0 a client would be sent to a node, 1 it would not.";

pub(super) const QUEUE_SERVE: &str = "\
Examples:
  # A queue for tests, in clear text, without any configuration
  crossload queue serve --anonymous --operator '*' --allow-local-peers

  # For users with certificates
  crossload queue serve --listen [::]:8446 --cert host.pem --key host.key \\
      --trust-directory /etc/grid-security/certificates";

pub(super) const QUEUE_SUBMIT: &str = "\
Examples:
  # Copy a file, and wait for it
  crossload queue submit -s https://queue.example.org:8446 -b -K \\
      https://a.example.org/data/file https://b.example.org/data/file

  # Many files: lines with source and destination, or the JSON of FTS's client
  crossload queue submit -s https://queue.example.org:8446 -f list.txt

  # Two replicas of the source; by way of another storage
  crossload queue submit -s https://queue.example.org:8446 \\
      --replica https://c.example.org/data/file \\
      https://a.example.org/data/file https://b.example.org/data/file
  crossload queue submit -s https://queue.example.org:8446 \\
      --via https://hop.example.org/tmp/file \\
      https://a.example.org/data/file root://b.example.org//data/file

  # With tokens: one for the queue, and one for each storage
  crossload queue submit -s https://queue.example.org:8446 \\
      --token-file queue.token --source-token-file read.token \\
      --destination-token-file write.token \\
      https://a.example.org/data/file https://b.example.org/data/file

CROSSLOAD_QUEUE can name the queue instead of -s. Exit code: 0 submitted, with --blocking all \
files copied; 1 with --blocking if a file was not copied; else the errno of the failure.";

pub(super) const QUEUE_STATUS: &str = "\
Examples:
  crossload queue status -s https://queue.example.org:8446 --files \\
      6d9c1f0e-0000-4000-8000-000000000001";

pub(super) const QUEUE_LIST: &str = "\
Examples:
  # Jobs of the last two hours that did not go well
  crossload queue list -s https://queue.example.org:8446 \\
      --state FAILED,FINISHEDDIRTY --since 2h

  # What waits for a storage, of a whole virtual organisation
  crossload queue list -s https://queue.example.org:8446 --vo atlas \\
      --destination davs://b.example.org";

pub(super) const QUEUE_CANCEL: &str = "\
Examples:
  # A job; the files 12 and 13 of another
  crossload queue cancel -s https://queue.example.org:8446 \\
      6d9c1f0e-0000-4000-8000-000000000001 \\
      6d9c1f0e-0000-4000-8000-000000000002:12,13";

pub(super) const QUEUE_LOG: &str = "\
Examples:
  crossload queue log -s https://queue.example.org:8446 \\
      6d9c1f0e-0000-4000-8000-000000000001:12";

pub(super) const QUEUE_PRIORITY: &str = "\
Examples:
  crossload queue priority -s https://queue.example.org:8446 \\
      6d9c1f0e-0000-4000-8000-000000000001 5";

pub(super) const QUEUE_WHY: &str = "\
Examples:
  crossload queue why -s https://queue.example.org:8446 \\
      6d9c1f0e-0000-4000-8000-000000000001
  crossload queue why -s https://queue.example.org:8446 4711
  crossload queue why -s https://queue.example.org:8446 \\
      https://a.example.org:443 https://b.example.org:443";

pub(super) const QUEUE_WATCH: &str = "\
Examples:
  crossload queue watch -s https://queue.example.org:8446 \\
      6d9c1f0e-0000-4000-8000-000000000001

Exit code: 0 all files copied, 1 not all, else the errno of the failure.";

pub(super) const QUEUE_LINKS: &str = "\
Examples:
  crossload queue links -s https://queue.example.org:8446
  crossload queue links -s https://queue.example.org:8446 --why \\
      https://a.example.org:443 https://b.example.org:443";

pub(super) const NODE_DRAIN: &str = "\
Examples:
  # No new files, then nothing new; waits until it is empty
  crossload node drain https://d1.example.org:1094
  crossload node drain https://d1.example.org:1094 --reads --wait

  crossload node undrain https://d1.example.org:1094";

pub(super) const QUEUE_PAUSE: &str = "\
Examples:
  crossload queue pause -s https://queue.example.org:8446 \\
      https://a.example.org:443 https://b.example.org:443";

pub(super) const QUEUE_LIMITS: &str = "\
Examples:
  crossload queue limits -s https://queue.example.org:8446

  # Of a storage, and of a link; none removes a limit
  crossload queue limits -s https://queue.example.org:8446 \\
      https://a.example.org:443 --inbound 50 --inbound-rate 500MiB
  crossload queue limits -s https://queue.example.org:8446 \\
      https://a.example.org:443 --third-party pull
  crossload queue limits -s https://queue.example.org:8446 \\
      https://a.example.org:443 https://b.example.org:443 --max 20";

pub(super) const QUEUE_BAN: &str = "\
Examples:
  # New jobs are taken and wait; the end of it; all bans
  crossload queue ban -s https://queue.example.org:8446 --status wait \\
      --allow-submit --reason downtime https://b.example.org:443
  crossload queue ban -s https://queue.example.org:8446 --unban \\
      https://b.example.org:443
  crossload queue ban -s https://queue.example.org:8446";

pub(super) const QUEUE_DRAIN: &str = "\
Examples:
  # All processes of a name (queue.worker), or one by its full name
  crossload queue drain -s https://queue.example.org:8446 worker1
  crossload queue drain -s https://queue.example.org:8446 worker1 --off";

pub(super) const QUEUE_SHARES: &str = "\
Examples:
  crossload queue shares -s https://queue.example.org:8446 atlas \\
      production=0.7 default=0.3
  crossload queue shares -s https://queue.example.org:8446 atlas --remove

  # Of virtual organisations on a link
  crossload queue shares -s https://queue.example.org:8446 \\
      --link '*' https://b.example.org:443 --share atlas=3 --share cms=1";

pub(super) const QUEUE_WEBHOOKS: &str = "\
Examples:
  crossload queue webhooks list -s https://queue.example.org:8446
  crossload queue webhooks add -s https://queue.example.org:8446 \\
      --kinds state --vo atlas https://monitor.example.org/crossload
  crossload queue webhooks remove -s https://queue.example.org:8446 \\
      5b1f0c3d2e4a6978";

pub(super) const QUEUE_WHOAMI: &str = "\
Examples:
  crossload queue whoami -s https://queue.example.org:8446";

pub(super) const QUEUE_DELEGATE: &str = "\
Examples:
  crossload queue delegate -s https://queue.example.org:8446
  crossload queue delegate -s https://queue.example.org:8446 --withdraw";
