//! The names of the files that a mesh makes. Each tells which mesh made it and in which run, so
//! that a later run of the same mesh can remove what a killed one left, and nothing else.

/// The beginning of all names.
const PREFIX: &str = "crossload-mesh-";

/// A run of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Which mesh: with which state directory and file of endpoints, and for which user. Only one
    /// of its runs may be under way at a time.
    pub mesh: u64,
    /// Begin of the run, in milliseconds since 1970.
    pub started_ms: u64,
}

impl Mark {
    /// The name of a file of this run.
    #[must_use]
    pub fn name(self, what: &str) -> String {
        format!("{PREFIX}{:016x}-{:x}-{what}", self.mesh, self.started_ms)
    }

    /// Whether a file is of this run.
    #[must_use]
    pub fn is_of(self, name: &str) -> bool {
        Self::read(name) == Some(self)
    }

    /// Whether a file is of an earlier run of the same mesh: of any other, since only one is under
    /// way at a time. The clock may have been ahead then.
    #[must_use]
    pub fn is_of_former(self, name: &str) -> bool {
        Self::read(name).is_some_and(|mark| mark.mesh == self.mesh && mark.started_ms != self.started_ms)
    }

    /// The mark in a name that is exactly as [`Mark::name`] writes it.
    fn read(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let (mesh, started, what) = (parts.next()?, parts.next()?, parts.next()?);
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let mark = Self {
            mesh: number(mesh)?,
            started_ms: number(started)?,
        };
        (parts.next().is_none() && is_what(what) && mark.name(what) == name).then_some(mark)
    }
}

/// Whether a mesh gives its files such names: `s` with three numbers for a file at a source, `c`
/// with one or two for a copy. A user's `…-c1.bak` must not be removed.
fn is_what(what: &str) -> bool {
    let is_number = |text: &str| u64::from_str_radix(text, 16).is_ok_and(|number| format!("{number:x}") == text);
    let numbers: Vec<&str> = what.get(1..).unwrap_or_default().split('.').collect();
    let counts = match what.as_bytes().first() {
        Some(b's') => 3..=3,
        Some(b'c') => 1..=2,
        _ => return false,
    };
    counts.contains(&numbers.len()) && numbers.into_iter().all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_same_mesh_are_taken_for_its_own() {
        let mark = Mark {
            mesh: 0xab,
            started_ms: 1_000,
        };
        let former = Mark {
            started_ms: 999,
            ..mark
        };
        let other = Mark { mesh: 0xac, ..former };
        assert!(mark.is_of(&mark.name("c7")) && !mark.is_of_former(&mark.name("c7")));
        for what in ["s0.1.0", "c0", "c1f.a"] {
            assert!(mark.is_of_former(&former.name(what)) && !mark.is_of(&former.name(what)));
            assert!(former.is_of_former(&mark.name(what)), "the clock was ahead");
        }
        for name in [
            "s0", "s0.1", "s0.1.2.3", "c", "c1.", "c1.0.2", "c1.0.bak", "c1.bak", "c01", "c+1", "C1", "x1", "é", "",
        ] {
            let name = former.name(name);
            assert!(!mark.is_of_former(&name) && !former.is_of(&name), "{name}");
        }
        for name in [
            other.name("c7"),
            format!("{}-x", former.name("c7")),
            former.name("c7").to_uppercase(),
            format!("x{}", former.name("c7")),
            "crossload-mesh-ab-3e7-c7".to_owned(),
            "crossload-mesh-".to_owned(),
            "data".to_owned(),
        ] {
            assert!(!mark.is_of_former(&name) && !mark.is_of(&name), "{name}");
        }
    }
}
