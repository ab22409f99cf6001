"""Validates a bill of materials: bill_of_materials.py FILE

By the JSON schema of CycloneDX 1.6, and by what no schema says: references lead somewhere, and licences are those of
SPDX's list. The library's own validator checks formats too, which takes three times as long and finds nothing more.
"""

import json
import pathlib
import sys

import cyclonedx.schema
from jsonschema import Draft7Validator
from license_expression import get_spdx_licensing
from referencing import Registry
from referencing.jsonschema import DRAFT7

SCHEMAS = pathlib.Path(cyclonedx.schema.__file__).parent / "_res"


def schema(name: str) -> dict:
    """A schema that the library brings along."""
    return json.loads((SCHEMAS / f"{name}.SNAPSHOT.schema.json").read_text(encoding="utf-8"))


def errors_of(document: dict) -> list[str]:
    """What is wrong with it."""
    bill = schema("bom-1.6")
    resources = [(used["$id"], DRAFT7.create_resource(used)) for used in (bill, schema("spdx"), schema("jsf-0.82"))]
    validator = Draft7Validator(bill, registry=Registry().with_resources(resources))
    found = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(document)]
    components = [document["metadata"]["component"], *document["components"]]
    known = {component["bom-ref"] for component in components}
    for entry in document["dependencies"]:
        for reference in [entry["ref"], *entry["dependsOn"]]:
            if reference not in known:
                found.append(f"{reference} is no component")
    licensing = get_spdx_licensing()
    for expression in {component["licenses"][0]["expression"] for component in components}:
        found += [f"{expression}: {error}" for error in licensing.validate(expression, strict=True).errors]
    return found


with open(sys.argv[1], encoding="utf-8") as opened:
    sys.exit("\n".join(errors_of(json.load(opened))) or 0)
