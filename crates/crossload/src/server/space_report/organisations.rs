//! The virtual organisations that use a storage.

use config::{Configuration, Counts};
use policy::{Area, Rule, Who};
use types::LogicalPath;

/// Organisations, and the paths below which they have files or rights.
#[derive(Clone, Debug, Default)]
pub(super) struct Organisations(Vec<Use>);

/// The use of a part of the tree by an organisation.
#[derive(Clone, Debug)]
struct Use {
    vo: String,
    directory: LogicalPath,
    except: Vec<Area>,
}

impl Use {
    fn of(vo: &str, directory: &LogicalPath) -> Self {
        Self {
            vo: vo.to_owned(),
            directory: directory.clone(),
            except: Vec::new(),
        }
    }

    /// Whether it is about something below this path.
    fn concerns(&self, path: &LogicalPath) -> bool {
        let common = match (self.directory.is_within(path), path.is_within(&self.directory)) {
            (true, _) => &self.directory,
            (false, true) => path,
            (false, false) => return false,
        };
        !self.except.iter().any(|area| covers(area, common))
    }
}

impl Organisations {
    /// Those of quotas and issuers.
    pub(super) fn of(configuration: &Configuration) -> Self {
        let quotas = configuration.quotas.iter();
        let mut uses: Vec<Use> = quotas.map(|quota| Use::of(&quota.vo, &quota.path)).collect();
        for issuer in &configuration.issuers {
            // Scopes of its tokens give rights; its groups do by rules only.
            let vo = issuer.vo.as_ref();
            let Some(vo) = vo.filter(|_| issuer.strategy.contains(&Counts::Capability)) else {
                continue;
            };
            let root = [LogicalPath::root()];
            let inner: &[LogicalPath] = match issuer.restricted_paths.as_slice() {
                [] => &root,
                restricted => restricted,
            };
            for base in &issuer.base_paths {
                let joined = inner.iter().filter_map(|inner| below(base, inner));
                uses.extend(joined.map(|directory| Use::of(vo, &directory)));
            }
        }
        Self(uses)
    }

    /// The same with those to which rules give something, or whose quotas they charge.
    pub(super) fn with_rules(mut self, rules: &[Rule]) -> Self {
        for rule in rules {
            let named = rule
                .who
                .iter()
                .filter(|_| !rule.may.is_empty())
                .filter_map(organisation);
            let charged = rule.vo.as_deref();
            self.0.extend(named.chain(charged).map(|vo| Use {
                vo: vo.to_owned(),
                directory: beginning(&rule.area),
                except: rule.except.clone(),
            }));
        }
        self
    }

    /// Those that use something below this path, as the report names them.
    pub(super) fn at(&self, path: &LogicalPath) -> Vec<String> {
        let about = self.0.iter().filter(|one| one.concerns(path));
        let mut vos: Vec<String> = about.map(|one| format!("/{}", one.vo)).collect();
        vos.sort();
        vos.dedup();
        vos
    }
}

/// The organisation that a word of `who` names, if it names one.
fn organisation(who: &Who) -> Option<&str> {
    let name = match who {
        Who::Vo(name) => name.as_str(),
        Who::Fqan(name) | Who::Group(name) => name.trim_start_matches('/').split('/').next()?,
        _ => return None,
    };
    (!name.is_empty() && !name.contains('*')).then_some(name)
}

fn below(base: &LogicalPath, inner: &LogicalPath) -> Option<LogicalPath> {
    match (base.is_root(), inner.is_root()) {
        (true, _) => Some(inner.clone()),
        (_, true) => Some(base.clone()),
        _ => LogicalPath::parse(&format!("{base}{inner}")).ok(),
    }
}

/// The directory in which an area lies.
fn beginning(area: &Area) -> LogicalPath {
    let text = match area {
        Area::Below(path) => return path.clone(),
        Area::BeginningWith(text) | Area::OfUser(text, _) => text,
    };
    let directory = text.rsplit_once('/').map_or("/", |(directory, _)| directory);
    LogicalPath::parse(directory).unwrap_or_else(|_| LogicalPath::root())
}

/// Whether a path and everything below it are in an area.
fn covers(area: &Area, path: &LogicalPath) -> bool {
    match area {
        Area::Below(directory) => path.is_within(directory),
        Area::BeginningWith(text) => path.as_str().starts_with(text.as_str()),
        Area::OfUser(..) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use policy::read_authdb;

    use super::*;

    fn at(text: &str, path: &str) -> Vec<String> {
        let configuration = Configuration::parse(text, Path::new("/etc"), "c.toml").unwrap();
        let rules = configuration.policy_rules();
        let path = LogicalPath::parse(path).unwrap();
        Organisations::of(&configuration).with_rules(&rules).at(&path)
    }

    #[test]
    fn organisations_are_those_that_are_given_something() {
        let rule = |lines: &str| format!("[[rule]]\n{lines}\n");
        let may = "may = [\"read\"]";
        let of = |lines: &str| at(&rule(lines), "/data");
        assert_eq!(of(&format!("who = \"vo:atlas\"\n{may}")), ["/atlas"]);
        assert_eq!(of(&format!("who = \"fqan:/cms/Role=production\"\n{may}")), ["/cms"]);
        assert_eq!(
            of(&format!("who = \"group:/dune/x\"\npath = \"/data/dune\"\n{may}")),
            ["/dune"]
        );
        assert_eq!(of(&format!("who = \"anyone\"\nvo = \"lhcb\"\n{may}")), ["/lhcb"]);
        for nothing in [
            "who = \"vo:evil\"\nmay_not = [\"all\"]".to_owned(),
            format!("who = \"fqan:/*/Role=production\"\n{may}"),
            format!("who = \"vo:atlas\"\npath = \"/other\"\n{may}"),
            format!("who = \"vo:atlas\"\nexcept = [\"/data\"]\n{may}"),
            format!("who = \"vo:atlas\"\npath = \"/data/a\"\nexcept = [\"/data/a*\"]\n{may}"),
        ] {
            assert_eq!(of(&nothing), [""; 0], "{nothing}");
        }
        let part = format!("who = \"vo:atlas\"\nexcept = [\"/data/cms\"]\n{may}");
        assert_eq!(of(&part), ["/atlas"]);
    }

    #[test]
    fn issuers_quotas_and_an_authdb_name_organisations() {
        let issuer = "[[issuer]]\nurl = \"https://iam.example\"\nvo = \"atlas\"\n";
        assert_eq!(at(issuer, "/data"), ["/atlas"]);
        let below_other = format!("{issuer}base_paths = [\"/other\"]\n");
        assert_eq!(at(&below_other, "/data"), [""; 0]);
        let restricted = format!("{issuer}restricted_paths = [\"/data/x\"]\n");
        assert_eq!(at(&restricted, "/data"), ["/atlas"]);
        assert_eq!(at(&restricted, "/other"), [""; 0]);
        assert_eq!(at(&format!("{issuer}strategy = [\"group\"]\n"), "/data"), [""; 0]);
        let export = "[[export]]\npath = \"/data\"\ndirectory = \"d\"\n";
        let quota = "[[quota]]\nvo = \"cms\"\npath = \"/data/cms\"\nbytes = 1000\n";
        assert_eq!(at(&format!("{export}{quota}"), "/data"), ["/cms"]);
        let rules = read_authdb("o atlas /data rwld\n").unwrap();
        let path = LogicalPath::parse("/data").unwrap();
        assert_eq!(Organisations::default().with_rules(&rules).at(&path), ["/atlas"]);
    }
}
