//! The chart, rendered with sets of values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use conformance::{Run, run};
use serde_json::Value;
use testkit::{Result, Scratch, require_helm, require_python};

/// The name of the release in all renderings.
pub(crate) const RELEASE: &str = "rel";
/// Its namespace.
pub(crate) const NAMESPACE: &str = "data";

/// What renders the chart, and where.
#[derive(Debug)]
pub(crate) struct Charts {
    helm: PathBuf,
    python: PathBuf,
    pub(crate) scratch: Scratch,
}

/// The objects of a rendering.
pub(crate) type Objects = Vec<Value>;

impl Charts {
    /// # Errors
    /// Helm, or the schemas of Kubernetes, are missing.
    pub(crate) fn new(name: &str) -> Result<Self> {
        Ok(Self {
            helm: require_helm()?,
            python: require_python("kubernetes_validate")?,
            scratch: Scratch::new(name)?,
        })
    }

    /// The chart's directory, or a place in it.
    pub(crate) fn path(name: &str) -> PathBuf {
        repository("packaging/chart/crossload").join(name)
    }

    /// The sets of values that come with the chart.
    pub(crate) fn sets() -> Vec<PathBuf> {
        let entries = std::fs::read_dir(repository("packaging/chart/values")).expect("sets of values");
        let mut sets: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        sets.sort();
        sets
    }

    pub(crate) fn template(&self, values: &Path) -> Run {
        let mut command = Command::new(&self.helm);
        command.arg("template").arg(RELEASE).arg(Self::path(""));
        command.arg("-f").arg(values).args(["--namespace", NAMESPACE]);
        run(command.args(["--api-versions", "monitoring.coreos.com/v1"]))
    }

    /// The file with these values.
    pub(crate) fn values(&self, name: &str, text: &str) -> PathBuf {
        let file = self.scratch.join(&format!("{name}.values"));
        std::fs::write(&file, text).expect("values");
        file
    }

    /// Renders each set of values, and demands that the objects are valid.
    pub(crate) fn objects(&self, sets: &[PathBuf]) -> BTreeMap<String, Objects> {
        let mut validate = Command::new(&self.python);
        validate.arg(repository("crates/conformance/python/chart.py"));
        for set in sets {
            let rendered = self.template(set).succeeded();
            let name = set.file_stem().expect("a name").to_string_lossy().into_owned();
            let file = self.scratch.join(&format!("{name}.yaml"));
            std::fs::write(&file, rendered.stdout).expect("a rendering");
            validate.arg(file);
        }
        let validated = run(&validate).succeeded();
        serde_json::from_slice(&validated.stdout).expect("JSON")
    }
}

/// A place in the repository.
pub(crate) fn repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// An object by its kind and name.
#[track_caller]
pub(crate) fn object<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The configuration files in the objects, by their names.
pub(crate) fn configurations(objects: &[Value]) -> BTreeMap<String, String> {
    let maps = objects.iter().filter(|object| object["kind"] == "ConfigMap");
    let files = maps.filter_map(|map| map["data"].as_object()).flatten();
    files
        .filter(|(name, _)| name.ends_with(".toml"))
        .map(|(name, text)| (name.clone(), text.as_str().expect("a text").to_owned()))
        .collect()
}

/// The specifications of all pods in the objects.
pub(crate) fn pods(objects: &[Value]) -> Vec<&Value> {
    let places = ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"];
    let of = |object: &'_ Value| match object["kind"].as_str() {
        Some("Pod") => Some("/spec"),
        _ => places.into_iter().find(|place| object.pointer(place).is_some()),
    };
    objects
        .iter()
        .filter_map(|object| object.pointer(of(object)?))
        .collect()
}
