"""A real Rucio with our queue as its transfer tool: python3 rucio_flow.py PLAN.

PLAN is a JSON file: "directory" (an empty one), "queue" (URL of the queue), "proxy" (PEM file with certificate and
key), "server_port", "storages", "distances", "files", "rules" and "timeout_s". Rucio runs on SQLite in the directory:
its server as a process of its own, its daemons in this one, once per round and without their pauses. Prints one JSON
object: for each rule its state, its locks, the errors of its requests, and the queue's last job for it.
"""

import json
import logging
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request

plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
home = pathlib.Path(plan["directory"])
database = f"sqlite:///{home}/rucio.db"
server = f"http://127.0.0.1:{plan['server_port']}"
submitting = threading.Lock()
# The queue's last job for each file; Rucio's interfaces do not show it.
jobs = {}


def configure():
    """Writes Rucio's configuration; it is read when its modules are imported."""
    import rucio

    migrations = pathlib.Path(rucio.__file__).parent / "db/sqla/migrate_repo"
    (home / "etc").mkdir()
    (home / "log").mkdir()
    receiver = ""
    if plan.get("messages_port"):
        receiver = f"""
[messaging-fts3]
brokers = 127.0.0.1
port = {plan['messages_port']}
nonssl_port = {plan['messages_port']}
use_ssl = False
username = {plan['messages_user']}
password = {plan['messages_password']}
destination = /topic/transfer.fts_monitoring_complete
voname = {plan['vo']}
"""
    (home / "etc/rucio.cfg").write_text(f"""
[common]
logdir = {home}/log
loglevel = INFO
[client]
rucio_host = {server}
auth_host = {server}
auth_type = userpass
username = ddmlab
password = secret
account = root
[database]
default = {database}
[bootstrap]
userpass_identity = ddmlab
userpass_pwd = secret
userpass_email = ddmlab@example.org
[alembic]
cfg = {home}/etc/alembic.ini
[cache]
url = 127.0.0.1:9
[conveyor]
scheme = https,davs,root
transfertool = fts3
usercert = {plan['proxy']}
[policy]
permission = generic
schema = generic
lfn2pfn_algorithm_default = hash
support = nobody@example.org
support_rucio = nobody@example.org
{receiver}""")
    (home / "etc/alembic.ini").write_text(f"""
[alembic]
script_location = {migrations}
sqlalchemy.url = {database}
[loggers]
keys = root
[handlers]
keys = console
[formatters]
keys = plain
[logger_root]
level = WARN
handlers = console
[handler_console]
class = StreamHandler
args = (sys.stderr,)
level = NOTSET
formatter = plain
[formatter_plain]
format = %(message)s
""")
    os.environ["RUCIO_HOME"] = str(home)


def wait_for_server(process):
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError("the Rucio server ended")
        try:
            urllib.request.urlopen(f"{server}/ping", timeout=2).read()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the Rucio server does not answer")


def protocol(given):
    wide = {"read": 1, "write": 1, "delete": 1, "third_party_copy_read": given.get("read", 1),
            "third_party_copy_write": given.get("write", 1)}
    return {"scheme": given["scheme"], "hostname": given["hostname"], "port": given["port"],
            "prefix": given["prefix"], "impl": "rucio.rse.protocols.gfal.Default",
            "domains": {"lan": {"read": 1, "write": 1, "delete": 1}, "wan": wide}}


def fill(client):
    """Storages, distances, replicas and rules, as an operator of Rucio makes them."""
    for storage in plan["storages"]:
        name = storage["name"]
        client.add_rse(name)
        for given in storage["protocols"]:
            client.add_protocol(name, protocol(given))
        client.add_rse_attribute(name, "fts", plan["queue"])
        for key, value in storage.get("attributes", {}).items():
            client.add_rse_attribute(name, key, value)
        client.set_account_limit("root", name, -1, "local")
    for source, destination, *distance in plan["distances"]:
        client.add_distance(source, destination, {"distance": distance[0] if distance else 1})
    client.add_scope("root", "test")
    for given in plan["files"]:
        for storage in given["at"]:
            client.add_replicas(storage, [{"scope": "test", "name": given["name"], "bytes": given["bytes"],
                                           "adler32": given["adler32"]}])
    return add_rules(client, plan["rules"])


def add_rules(client, wanted):
    rules = {}
    for rule in wanted:
        did = [{"scope": "test", "name": rule["name"]}]
        ids = client.add_replication_rule(did, 1, rule["to"], activity="User Subscriptions")
        rules[rule["name"]] = ids[0]
    return rules


def start_receiver():
    """Returns when it has subscribed: topics keep nothing for those who come later."""
    import stomp
    from rucio.daemons.conveyor import receiver

    subscribed = threading.Event()
    subscribe = stomp.Connection12.subscribe

    def noticed(self, *arguments, **named):
        subscribe(self, *arguments, **named)
        subscribed.set()

    # Rucio notes the job's ID behind the answer, and drops a message about a job that it does not know yet.
    take = receiver.Receiver.on_message

    def late(self, *arguments, **named):
        with submitting:
            take(self, *arguments, **named)

    receiver.Receiver.on_message = late
    stomp.Connection12.subscribe = noticed
    threading.Thread(target=receiver.receiver, kwargs={"id_": 0}, daemon=True).start()
    if not subscribed.wait(30):
        raise RuntimeError("the receiver does not subscribe")


def submit():
    from rucio.daemons.conveyor import submitter

    with submitting:
        submitter.submitter(once=True, partition_wait_time=None, group_bulk=10, transfertools=["fts3"],
                            group_policy=plan.get("group_policy", "rule"))
    # Rucio forgets them with the request when that has ended.
    with sqlite3.connect(f"{home}/rucio.db") as connection:
        jobs.update(connection.execute("SELECT name, external_id FROM requests WHERE external_id IS NOT NULL"))


def work(client, rules):
    """Runs the daemons once per round until every rule has ended, or the time is over."""
    from rucio.daemons.conveyor import finisher, poller

    ends = time.monotonic() + plan["timeout_s"]
    states = {}
    while time.monotonic() < ends:
        submit()
        if plan.get("polls", True):
            poller.poller(once=True, older_than=0, partition_wait_time=None, transfertool="fts3")
        finisher.finisher(once=True, partition_wait_time=None, bulk=100)
        states = {name: client.get_replication_rule(rule) for name, rule in rules.items()}
        if all(state["state"] in ("OK", "STUCK") for state in states.values()):
            break
        time.sleep(0.3)
    return {name: {"state": state["state"], "error": state.get("error"), "ok": state["locks_ok_cnt"],
                   "stuck": state["locks_stuck_cnt"], "job": shown(jobs.get(name))}
            for name, state in states.items()}


def shown(job):
    """The type of a job, and source and state of each of its files."""
    if not job:
        return None
    url = f"{plan['queue']}/jobs/{job}?files=source_surl,file_state"
    with urllib.request.urlopen(url, timeout=10) as answer:
        found = json.load(answer)
    return {"type": found["job_type"], "files": [[file["source_surl"], file["file_state"]] for file in found["files"]]}


def repair(client, rules, states):
    from rucio.daemons.judge import repairer

    for place in plan["repairs"]:
        pathlib.Path(place["to"]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(place["from"], place["to"])
    # Rucio tries the same destination again after two hours.
    with sqlite3.connect(f"{home}/rucio.db") as connection:
        connection.execute("UPDATE locks SET updated_at = datetime('now', '-3 hours')")
    repairer.rule_repairer(once=True)
    return {name: {**state, "before": states[name]["state"]} for name, state in work(client, rules).items()}


def wait_for_job(job, states):
    """The job's state at the queue, which is one of these or the last before the time was over."""
    ends = time.monotonic() + plan["timeout_s"]
    while True:
        with urllib.request.urlopen(f"{plan['queue']}/jobs/{job}", timeout=10) as answer:
            state = json.load(answer)["job_state"]
        if state in states or time.monotonic() > ends:
            return state
        time.sleep(0.1)


def cancel(client):
    rules = add_rules(client, plan["canceled"])
    submit()
    ended = {}
    for name, rule in rules.items():
        job = jobs[name]
        was = wait_for_job(job, ["ACTIVE"])
        client.update_replication_rule(rule, {"cancel_requests": True, "state": "STUCK"})
        state = client.get_replication_rule(rule)["state"]
        ended[name] = {"state": state, "was": was, "job": wait_for_job(job, ["CANCELED", "FAILED", "FINISHED"])}
    return ended


def main():
    configure()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    from rucio.db.sqla.util import build_database, create_base_vo, create_root_account

    build_database()
    create_base_vo()
    create_root_account()
    flask = [sys.executable, "-m", "flask", "--app", "rucio.web.rest.flaskapi.v1.main", "run",
             "--port", str(plan["server_port"])]
    process = subprocess.Popen(flask, stdout=sys.stderr)
    try:
        wait_for_server(process)
        from rucio.client import Client

        client = Client()
        rules = fill(client)
        if plan.get("messages_port"):
            start_receiver()
        states = work(client, rules)
        if plan.get("repairs"):
            states = repair(client, rules, states)
        if plan.get("canceled"):
            states |= cancel(client)
        print(json.dumps(states))
    finally:
        process.terminate()
        process.wait()


main()
