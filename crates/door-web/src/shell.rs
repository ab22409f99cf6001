//! What all pages have around their content.

use crate::words::Words;

/// A page in the navigation.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) path: &'static str,
    pub(crate) name: &'static str,
}

/// The pages of an endpoint, in the order of the navigation.
pub(crate) const ENDPOINT_PLACES: [Place; 2] = [
    Place {
        path: "/now",
        name: "Now",
    },
    Place {
        path: "/endpoint",
        name: "Endpoint",
    },
];

/// The pages of a queue.
pub(crate) const QUEUE_PLACES: [Place; 2] = [
    Place {
        path: "/queue",
        name: "Queue",
    },
    Place {
        path: "/links",
        name: "Links",
    },
];

/// The page of a redirector.
pub(crate) const CLUSTER_PLACE: Place = Place {
    path: "/cluster",
    name: "Cluster",
};

/// The page of runs of the instruments.
pub(crate) const MESH_PLACE: Place = Place {
    path: "/mesh",
    name: "Mesh",
};

/// Head, navigation and foot of a page.
pub(crate) struct Shell {
    /// The title of the page.
    pub(crate) title: Words,
    /// The path of the page in the navigation; empty: none of them.
    pub(crate) current: &'static str,
    /// The server's name.
    pub(crate) server: Words,
    /// Product and version.
    pub(crate) program: Words,
    /// Who looks, if signed in.
    pub(crate) viewer: Option<Words>,
    /// The token of the form that ends its session, if it has one.
    pub(crate) sign_out: Option<String>,
    /// Whether signing in gives a viewer more.
    pub(crate) can_sign_in: bool,
    /// Whether the viewer may change what runs.
    pub(crate) is_operator: bool,
    pub(crate) places: Vec<Place>,
    /// Whether the manual is shown.
    pub(crate) has_manual: bool,
}
