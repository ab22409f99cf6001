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

    /// Whether a file is of an earlier run of the same mesh.
    #[must_use]
    pub fn is_of_former(self, name: &str) -> bool {
        Self::read(name).is_some_and(|mark| mark.mesh == self.mesh && mark.started_ms < self.started_ms)
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
        (parts.next().is_none() && mark.name(what) == name).then_some(mark)
    }
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
        assert!(mark.is_of_former(&former.name("s0")) && !mark.is_of(&former.name("s0")));
        assert!(!former.is_of_former(&mark.name("c7")), "a later one");
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
