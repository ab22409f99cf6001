//! Options of `xattr`.

use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;

use super::client::Common;

/// What to do with attributes.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum AttributeAction {
    /// List the names of the attributes of a file
    Ls {
        /// File or directory: a URL, NAME:PATH in a named remote, or a local path
        place: String,
        #[command(flatten)]
        common: Common,
    },
    /// Print the value of an attribute
    Get {
        /// File or directory: a URL, NAME:PATH in a named remote, or a local path
        place: String,
        /// Name of the attribute
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
        #[command(flatten)]
        common: Common,
    },
    /// Set an attribute
    Set {
        /// File or directory: a URL, NAME:PATH in a named remote, or a local path
        place: String,
        /// Name of the attribute
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
        /// Its value
        value: String,
        #[command(flatten)]
        common: Common,
    },
    /// Remove an attribute
    Rm {
        /// File or directory: a URL, NAME:PATH in a named remote, or a local path
        place: String,
        /// Name of the attribute
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        name: String,
        #[command(flatten)]
        common: Common,
    },
}

impl AttributeAction {
    /// The options that all of them have.
    pub(crate) fn common(&self) -> &Common {
        match self {
            Self::Ls { common, .. } | Self::Get { common, .. } | Self::Set { common, .. } | Self::Rm { common, .. } => {
                common
            }
        }
    }

    /// The command's name in error messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ls { .. } => "xattr ls",
            Self::Get { .. } => "xattr get",
            Self::Set { .. } => "xattr set",
            Self::Rm { .. } => "xattr rm",
        }
    }
}
