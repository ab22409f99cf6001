"""Validates rendered charts and prints their objects as JSON, by the name of each file.

Each object is compared with the schema of its kind in Kubernetes, without members that the schema does not name.
Objects of custom resources have no schema there.
"""

import json
import pathlib
import sys

import kubernetes_validate
import yaml

RELEASE = "1.36"
# Where objects of custom resources are.
CUSTOM = ("cert-manager.io/", "monitoring.coreos.com/")


def objects(path):
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for found in yaml.load_all(path.read_text(), Loader=loader):
        if found is None:
            continue
        if not found["apiVersion"].startswith(CUSTOM):
            try:
                kubernetes_validate.validate(found, RELEASE, strict=True)
            except Exception as error:  # It has several kinds, and each is a fault of the chart.
                sys.exit(f"{path.name}: {found['kind']}/{found['metadata']['name']}: {error}")
        yield found


print(json.dumps({path.stem: list(objects(path)) for path in map(pathlib.Path, sys.argv[1:])}))
