//! What a listing cannot show, so that a directory never looks emptier than it is.

/// Names in a directory that a listing leaves out because no path can hold them: they are not UTF-8, have control
/// characters, or are too long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unlisted {
    /// How many there are.
    pub count: u64,
    /// One of them, with `\x` and two digits for each byte that is not printable ASCII.
    pub example: Option<String>,
}

impl Unlisted {
    /// Counts a name.
    pub fn add(&mut self, name: &[u8]) {
        self.count += 1;
        self.example.get_or_insert_with(|| name.escape_ascii().to_string());
    }
}

impl std::fmt::Display for Unlisted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (names, are) = if self.count == 1 {
            ("name", "is")
        } else {
            ("names", "are")
        };
        let why = "not UTF-8, with control characters, or too long";
        write!(
            formatter,
            "{} {names} that no path can hold ({why}) {are} not shown",
            self.count
        )
    }
}
