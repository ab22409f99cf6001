//! What `--json` prints, against its schema (`docs/client-output.schema.json`).

use std::process::Command;

use conformance::{Run, Site, bytes, json_lines, run_with_input};
use testkit::{available, require_queue_python};

use crate::client;

/// Validates lines of JSON, each behind the name of its schema and a tab.
const VALIDATOR: &str = "
import json, sys, jsonschema
whole = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(whole)
# Members that the schema does not name may come in later versions, not in this one.
def close(schema):
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, (dict, list)):
            close(part)
    if isinstance(schema, dict) and isinstance(schema.get('properties'), dict):
        schema['additionalProperties'] = False
close(whole)
def validator(name):
    return jsonschema.Draft202012Validator({'$ref': '#/$defs/' + name, '$defs': whole['$defs']})
for line in sys.stdin:
    name, text = line.split('\\t', 1)
    for error in validator(name).iter_errors(json.loads(text)):
        sys.exit(name + ': ' + text + error.message)
";

/// Lines of commands with the names of their schemas.
fn lines(site: &Site) -> String {
    let lab = &site.lab;
    let mut all = String::new();
    let mut add = |schema: &str, run: Run| {
        let found = json_lines(&run);
        assert!(!found.is_empty(), "{schema}: {}", run.said());
        all.extend(found.iter().map(|line| format!("{schema}\t{line}\n")));
    };
    let tree = lab.fresh("schema");
    let tree = tree.to_str().expect("plain");
    std::fs::create_dir(tree).expect("a directory");
    for name in ["a", "b"] {
        std::fs::write(format!("{tree}/{name}"), bytes(1000, 109)).expect("a file");
    }
    std::os::unix::fs::symlink("a", format!("{tree}/link")).expect("a link");
    let (source, target) = (format!("{tree}/"), site.first.davs("schema"));
    let (file, missing) = (format!("{target}/a"), format!("{target}/none"));
    let client = |command: &str, arguments: &[&str]| lab.run_client(command, &[&["--json"], arguments].concat());
    add("copy", client("copy", &["-r", "--dry-run", &source, &target]));
    add("copy", client("copy", &["-r", &source, &target]));
    add("copy", client("copy", &["-r", &source, &target]));
    add("copy", client("copy", &[&file, &missing]));
    add("copy", client("copy", &[&missing, &file]));
    add("compare", client("compare", &["-v", &source, &target]));
    for command in ["ls", "stat", "find", "tree"] {
        add("entry", client(command, &[&target]));
    }
    let sums = client("sum", &[&file]);
    let list = lab.file(&sums.stdout);
    add("sum", sums);
    add("sum_check", client("sum", &["-c", list.to_str().expect("plain")]));
    add("du", client("du", &[&target]));
    add("df", client("df", &[&target]));
    add("rm", client("rm", &[&file, &file]));
    all
}

#[test]
fn json_fits_its_schema() {
    let test = "json_fits_its_schema";
    let needed = require_queue_python("python3").and_then(|python| Ok((python, client::site()?)));
    let Some((python, site)) = available(test, needed) else {
        return;
    };
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/client-output.schema.json");
    let mut validate = Command::new(python);
    validate.args(["-c", VALIDATOR, schema]);
    run_with_input(&validate, lines(&site).as_bytes()).succeeded();
    // It refuses what does not fit.
    let odd = b"du\t{\"name\": \"a\", \"bytes\": 1, \"files\": -1, \"directories\": 0}\n";
    run_with_input(&validate, odd).failed_with(1);
}
