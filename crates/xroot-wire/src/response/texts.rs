//! Answers whose texts only monitoring reads.

use std::fmt::Write as _;

use crate::flags::StatFlags;
use crate::response::StatText;

/// The fixed attributes of a file as text, without a NUL: which space it is in, what it is, its
/// size, times and permissions.
#[must_use]
pub fn fixed_attributes(space: &str, stat: &StatText) -> String {
    let kind = if stat.is_directory() { 'd' } else { 'f' };
    let access = if stat.flags.contains(StatFlags::WRITABLE) {
        'w'
    } else {
        'r'
    };
    let (changed_s, accessed_s) = stat
        .extension
        .as_ref()
        .map_or((stat.modified_s, stat.modified_s), |more| {
            (more.changed_s, more.accessed_s)
        });
    format!(
        "oss.cgroup={space}&oss.type={kind}&oss.used={}&oss.mt={}&oss.ct={changed_s}&oss.at={accessed_s}\
         &oss.u=*&oss.g=*&oss.fs={access}&ofs.ap=a",
        stat.size_bytes, stat.modified_s
    )
}

/// The statistics of a server as XML, without a NUL: who it is, and how many connections it has.
#[must_use]
pub fn statistics(program: &str, address: &str, now_s: i64, connections: usize) -> String {
    let (program, address) = (escaped(program), escaped(address));
    let (host, port) = address.rsplit_once(':').unwrap_or((&address, ""));
    format!(
        "<statistics tod=\"{now_s}\" ver=\"{program}\" src=\"{address}\" pgm=\"xrootd\" ins=\"anon\">\
         <stats id=\"info\"><host>{host}</host><port>{port}</port><name>anon</name></stats>\
         <stats id=\"link\"><num>{connections}</num></stats></statistics>"
    )
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '"' => {
                // Writing into a string does not fail.
                let _ = write!(safe, "&#{};", character as u32);
            }
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attributes_are_those_of_the_reference_server() {
        let stat = StatText {
            id: 1,
            size_bytes: 19,
            flags: StatFlags::READABLE | StatFlags::WRITABLE,
            modified_s: 5,
            extension: None,
        };
        assert_eq!(
            fixed_attributes("public", &stat),
            "oss.cgroup=public&oss.type=f&oss.used=19&oss.mt=5&oss.ct=5&oss.at=5&oss.u=*&oss.g=*&oss.fs=w&ofs.ap=a"
        );
    }

    #[test]
    fn statistics_are_sound_xml() {
        let text = statistics("a<b>&\"", "[::1]:1094", 7, 3);
        assert!(
            text.contains("ver=\"a&#60;b&#62;&#38;&#34;\"") && text.contains("<num>3</num>"),
            "{text}"
        );
        assert!(text.contains("<host>[::1]</host><port>1094</port>"), "{text}");
    }
}
