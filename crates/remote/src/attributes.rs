//! Extended attributes of files: names with small values, which users keep with a file.

/// What to do with the attributes of a file.
#[derive(Clone, Copy, Debug)]
pub enum AttributeCall<'a> {
    /// List the names.
    List,
    /// Read the value of this one.
    Get(&'a str),
    /// Set this one to a value, in place of the one that it has.
    Set(&'a str, &'a [u8]),
    /// Remove this one.
    Remove(&'a str),
}

/// An attribute of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value; empty in a list.
    pub value: Vec<u8>,
}
