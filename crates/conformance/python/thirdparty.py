"""Third-party copies by XRootD's Python client: python3 thirdparty.py SOURCE DESTINATION COUNT copies SOURCE to
DESTINATION-0, DESTINATION-1 and so on at once, and compares the checksums of both sides."""

import sys

from XRootD import client

source, destination, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
process = client.CopyProcess()
process.parallel(count)
for index in range(count):
    process.add_job(source, f"{destination}-{index}", thirdparty="only", force=True,
                    checksummode="end2end", checksumtype="adler32")
status = process.prepare()
assert status.ok, status.message
status, results = process.run()
assert status.ok, status.message
for result in results:
    assert result["status"].ok, result["status"].message
