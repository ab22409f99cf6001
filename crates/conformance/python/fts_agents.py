"""What agents of experiments do with the library of FTS: python3 fts_agents.py PLAN.

PLAN is a JSON file: "queue" (URL), "proxy" (PEM file), "source", "between" and "destination" (URLs of directories),
"size" and "adler32" of the file `f` in the source, and "timeout_s". The calls and their arguments are those of DIRAC
(job monitor and job builder of its FTS3 agent) and of CRAB. Prints one JSON object with what each of them saw.
"""

import datetime
import json
import pathlib
import sys
import time

import fts3.rest.client.easy as fts3
from fts3.rest.client.exceptions import FTS3ClientException, NotFound
from fts3.rest.client.request import Request

FINAL = {"FINISHED", "FAILED", "CANCELED", "FINISHEDDIRTY"}
FILE_FINAL = {"FINISHED", "FAILED", "CANCELED"}

plan = json.loads(pathlib.Path(sys.argv[1]).read_text())
for key in ("source", "between", "destination"):
    plan[key] = plan[key].rstrip("/")
deadline = time.monotonic() + plan["timeout_s"]


def context():
    """DIRAC verifies no server, and delegates for seven hours when less than a third is left."""
    made = fts3.Context(endpoint=plan["queue"], ucert=plan["proxy"], request_class=Request, verify=False)
    lifetime = datetime.timedelta(seconds=25200)
    fts3.delegate(made, lifetime=lifetime, delegate_when_lifetime_lt=lifetime // 3)
    return made


def transfer(source, destination, metadata):
    """A file as DIRAC describes it."""
    return fts3.new_transfer(
        source,
        destination,
        checksum=f"ADLER32:{plan['adler32']}",
        filesize=plan["size"],
        metadata=metadata,
        activity="Data Consolidation",
    )


def job(transfers, multihop=False):
    """A job as DIRAC builds it."""
    return fts3.new_job(
        transfers=transfers,
        overwrite=True,
        source_spacetoken=None,
        bring_online=None,
        copy_pin_lifetime=None,
        retry=3,
        verify_checksum="target",
        multihop=multihop,
        metadata={"operationID": 7, "rmsReqID": 8, "sourceSE": "A", "targetSE": "B"},
        priority=4,
        archive_timeout=None,
        destination_spacetoken=None,
    )


def monitor(client, identifier):
    """Polls as DIRAC does until the job is final. A job that is final while a file of it is not is what DIRAC retries."""
    seen = {}
    while time.monotonic() < deadline:
        status = fts3.get_job_status(client, identifier, list_files=True)
        files = [one for one in status["files"] if one["file_metadata"].get("fileID")]
        seen = {
            "state": status["job_state"],
            "reason": status["reason"],
            "metadata": status["job_metadata"],
            "files": {
                one["file_metadata"]["fileID"]: {
                    "state": one["file_state"],
                    "reason": one["reason"],
                    "size": one["filesize"],
                    "duration_s": one["tx_duration"],
                    "throughput": one["throughput"],
                }
                for one in files
            },
        }
        if status["job_state"] in FINAL:
            seen["consistent"] = all(one["file_state"] in FILE_FINAL for one in files)
            return seen
        time.sleep(0.2)
    seen["state"] = f"timeout in {seen.get('state')}"
    return seen


def refusal(call):
    """The name of the exception that a call raises."""
    try:
        call()
    except NotFound:
        return "NotFound"
    except FTS3ClientException as error:
        return type(error).__name__
    return "none"


def dirac(client):
    """Two files of which one is missing; a chain; a job that is canceled; a job that does not exist."""
    source, between, destination = plan["source"], plan["between"], plan["destination"]
    mixed = [
        transfer(f"{source}/f", f"{destination}/dirac-f", {"desc": "Transfer 1", "fileID": 1, "activity": "x"}),
        transfer(f"{source}/none", f"{destination}/dirac-none", {"desc": "Transfer 2", "fileID": 2}),
    ]
    chain = [
        transfer(f"{source}/f", f"{between}/dirac-hop", {"desc": "MultiHop 3"}),
        transfer(f"{between}/dirac-hop", f"{destination}/dirac-chain", {"desc": "Transfer 3", "fileID": 3}),
    ]
    # A port without a server: the link is held, and the file waits.
    waiting = [transfer("davs://localhost:1/data/f", f"{destination}/dirac-waiting", {"fileID": 4})]
    identifiers = {name: fts3.submit(client, made) for name, made in
                   {"mixed": job(mixed), "chain": job(chain, True), "waiting": job(waiting)}.items()}
    canceled = fts3.cancel(client, identifiers["waiting"])["job_state"]
    seen = {name: monitor(client, identifier) for name, identifier in identifiers.items()}
    unknown = "00000000-0000-1000-8000-000000000000"
    return seen | {
        "canceled": canceled,
        "unknown": refusal(lambda: fts3.get_job_status(client, unknown, list_files=True)),
        "unknown_canceled": refusal(lambda: fts3.cancel(client, unknown)),
    }


def crab(client):
    """Chunks of files with a time in the queue, asked for together."""
    destination = plan["destination"]
    chunks = [
        [fts3.new_transfer(f"{plan['source']}/f", f"{destination}/crab-{number}", filesize=plan["size"],
                           metadata={"oracleId": f"id{number}"})]
        for number in range(3)
    ]
    made = [fts3.new_job(chunk, overwrite=True, verify_checksum=True, metadata={"issuer": "ASO"},
                         max_time_in_queue=600, retry=3, retry_delay=600) for chunk in chunks]
    identifiers = [fts3.submit(client, one) for one in made]
    while time.monotonic() < deadline:
        jobs = fts3.get_jobs_statuses(client, identifiers, list_files=True)
        if all(one["job_state"] in FINAL for one in jobs):
            break
        time.sleep(0.2)
    files = [one for job in jobs for one in job["files"]]
    return sorted([one["file_metadata"]["oracleId"], one["file_state"], one["source_surl"]] for one in files)


client = context()
print(json.dumps({"dirac": dirac(client), "crab": crab(client)}))
