//! What our client prints with `--json`, against its schema (`docs/client-output.schema.json`).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::run::{Run, run_with_input};

/// Validates lines of JSON, each behind the name of its schema and a tab.
const VALIDATOR: &str = "
import json, pathlib, sys, jsonschema, referencing
from referencing.jsonschema import DRAFT202012
path = pathlib.Path(sys.argv[1])
whole = json.loads(path.read_text())
jsonschema.Draft202012Validator.check_schema(whole)
# Members that the schema does not name may come in later versions, not in this one.
def close(schema):
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, (dict, list)):
            close(part)
    if isinstance(schema, dict) and isinstance(schema.get('properties'), dict):
        schema['additionalProperties'] = False
close(whole)
queue = DRAFT202012.create_resource(json.loads((path.parent / 'openapi.json').read_text()))
registry = referencing.Registry().with_resource('openapi.json', queue)
def validator(name):
    schema = {'$ref': '#/$defs/' + name, '$defs': whole['$defs']}
    return jsonschema.Draft202012Validator(schema, registry=registry)
for line in sys.stdin:
    name, text = line.split('\\t', 1)
    for error in validator(name).iter_errors(json.loads(text)):
        sys.exit(name + ': ' + text + error.message)
";

/// Lines of JSON with the names of their schemas.
#[derive(Debug, Default)]
pub struct JsonLines(String);

impl JsonLines {
    /// Adds objects that fit the schema of this name.
    ///
    /// # Panics
    /// Without objects.
    #[track_caller]
    pub fn add(&mut self, schema: &str, lines: &[Value]) {
        assert!(!lines.is_empty(), "{schema}: nothing was printed");
        self.0.extend(lines.iter().map(|line| format!("{schema}\t{line}\n")));
    }

    /// Whether all fit, by a Python that has `jsonschema`.
    #[must_use]
    pub fn check(&self, python: &Path) -> Run {
        let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/client-output.schema.json");
        let mut validate = Command::new(python);
        validate.args(["-c", VALIDATOR, schema]);
        run_with_input(&validate, self.0.as_bytes())
    }
}
