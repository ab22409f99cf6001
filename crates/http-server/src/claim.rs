//! Claims: which requests a door answers, as a table of methods and paths.
//!
//! A door has one table. The first claim that matches a request makes the door's route: an enum
//! with the typed parts of the path, so that what follows sees what is asked and not a text.

use std::fmt;

use http_wire::Method;
use types::LogicalPath;

/// The segment of a pattern that stands for the rest of the path.
const REST: &str = "{*}";
/// Segments that one pattern can capture.
const CAPTURED_MAX: usize = 4;

/// One line of a table: requests with one of these methods at such a path.
pub struct Claim<R> {
    /// The methods; none means every method.
    pub methods: &'static [Method],
    /// The path by segments. `{name}` stands for any one segment, and `{*}` at the end for the
    /// rest, which may be empty.
    pub path: &'static str,
    /// Makes the route out of the segments that `{name}` stood for.
    pub route: fn(Captured<'_>) -> R,
}

impl<R> Claim<R> {
    /// The route of a request; `None` when the claim does not match it.
    #[must_use]
    pub fn route_of(&self, method: &Method, path: &LogicalPath) -> Option<R> {
        if !self.methods.is_empty() && !self.methods.contains(method) {
            return None;
        }
        // Most claims are about other paths, which the text before the first capture shows.
        let literal = self.path.split('{').next().unwrap_or_default();
        if !path.as_str().starts_with(literal.trim_end_matches('/')) {
            return None;
        }
        let mut captured = Captured::default();
        let mut segments = path.components();
        for pattern in self.path.split('/').filter(|pattern| !pattern.is_empty()) {
            if pattern == REST {
                return Some((self.route)(captured));
            }
            let segment = segments.next()?;
            if pattern.starts_with('{') {
                captured.push(segment);
            } else if pattern != segment {
                return None;
            }
        }
        segments.next().is_none().then(|| (self.route)(captured))
    }
}

/// As a line for people: `GET,HEAD /path/{id}`, or `* /path` for every method.
impl<R> fmt::Display for Claim<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.methods.iter().map(Method::name).collect();
        let methods = if names.is_empty() {
            "*".to_owned()
        } else {
            names.join(",")
        };
        write!(formatter, "{methods} {}", self.path)
    }
}

/// Writes a table of claims, one line each: `[Get, Head] "/jobs/{id}" => |captured| …;`. `[]`
/// stands for every method. `Method` must be in scope.
#[macro_export]
macro_rules! claims {
    ($([$($method:ident),*] $path:expr => $route:expr;)*) => {
        &[$($crate::Claim { methods: &[$(Method::$method),*], path: $path, route: $route }),*]
    };
}

/// The segments of a path that stood for `{name}`, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Captured<'p> {
    segments: [&'p str; CAPTURED_MAX],
    count: usize,
}

impl<'p> Captured<'p> {
    /// The captured segment with this index; empty when the pattern captures fewer.
    #[must_use]
    pub fn get(&self, index: usize) -> &'p str {
        self.segments.get(index).copied().unwrap_or_default()
    }

    fn push(&mut self, segment: &'p str) {
        debug_assert!(self.count < CAPTURED_MAX, "a pattern captures too much");
        if let Some(free) = self.segments.get_mut(self.count) {
            *free = segment;
            self.count += 1;
        }
    }
}

/// The route of a request: that of the first claim that matches it.
pub fn find<'t, R: 't>(
    claims: impl IntoIterator<Item = &'t Claim<R>>,
    method: &Method,
    path: &LogicalPath,
) -> Option<R> {
    claims.into_iter().find_map(|claim| claim.route_of(method, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of a door with a queue of jobs.
    const JOBS: &[Claim<String>] = claims! {
        [Get] "/jobs/{id}/files" => |captured| format!("files of {}", captured.get(0));
        [Get, Head] "/jobs/{*}" => |_| "jobs".to_owned();
        [] "/" => |_| "root".to_owned();
    };

    fn route(method: Method, path: &str) -> Option<String> {
        find(JOBS, &method, &LogicalPath::parse(path).unwrap())
    }

    #[test]
    fn the_first_claim_that_matches_makes_the_route() {
        assert_eq!(route(Method::Get, "/jobs/7/files").as_deref(), Some("files of 7"));
        assert_eq!(route(Method::Head, "/jobs/7/files").as_deref(), Some("jobs"));
        assert_eq!(route(Method::Get, "/jobs/7/files/1").as_deref(), Some("jobs"));
        assert_eq!(route(Method::Get, "/jobs").as_deref(), Some("jobs"));
        assert_eq!(route(Method::Put, "/").as_deref(), Some("root"));
    }

    #[test]
    fn a_path_is_compared_by_whole_segments() {
        assert_eq!(route(Method::Get, "/jobsite"), None);
        assert_eq!(route(Method::Get, "/job"), None);
        assert_eq!(route(Method::Put, "/jobs"), None);
        assert_eq!(route(Method::Get, "/data/jobs"), None);
    }

    #[test]
    fn a_claim_is_shown_as_a_line() {
        let lines: Vec<String> = JOBS.iter().map(Claim::to_string).collect();
        assert_eq!(lines, ["GET /jobs/{id}/files", "GET,HEAD /jobs/{*}", "* /"]);
    }
}
