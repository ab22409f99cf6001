//! What all pages have around their content.

use crate::words::Words;

/// A page in the navigation.
pub(crate) struct Place {
    pub(crate) path: &'static str,
    pub(crate) name: &'static str,
}

/// All pages, in the order of the navigation.
pub(crate) const PLACES: [Place; 2] = [
    Place {
        path: "/now",
        name: "Now",
    },
    Place {
        path: "/endpoint",
        name: "Endpoint",
    },
];

/// Head, navigation and foot of a page.
pub(crate) struct Shell {
    /// The title of the page.
    pub(crate) title: &'static str,
    /// The path of the page in the navigation; empty: none of them.
    pub(crate) current: &'static str,
    /// The server's name.
    pub(crate) server: Words,
    /// Product and version.
    pub(crate) program: Words,
    /// Who looks, if signed in.
    pub(crate) viewer: Option<Words>,
    pub(crate) places: &'static [Place],
}
