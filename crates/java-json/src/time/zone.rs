//! Whether a text names a time zone, as Java's `ZoneId.of` reads it.
//!
//! Of a zone that it does not know, hessian-lite makes null, and fastjson, too. What Java knows by
//! name is in its copy of the time zone database, whose names change about once a year.

use std::borrow::Cow;

use memchr::memmem;

use super::{parse_offset, write_offset};

/// The names of regions, one a line: those of Java 17, and later ones. They are from the IANA time
/// zone database, which is in the public domain. `EST`, `MST` and `HST` are names in Java 23 only.
const REGIONS: &str = include_str!("zones.txt");
/// What may stand before an offset, or alone.
const PREFIXES: [&str; 3] = ["UTC", "GMT", "UT"];

/// A zone by its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Zone<'a> {
    /// Its name as Java writes it: `UTC+08:00` for `UTC+8`.
    pub name: Cow<'a, str>,
    /// Its offset in seconds, if the name says it.
    pub offset: Option<i32>,
}

/// The zone that Java knows by this name: `Asia/Shanghai`, `UTC`, `GMT+8`, `+08:00`, `Z`.
pub fn parse_zone(name: &str) -> Option<Zone<'_>> {
    let (prefix, offset) = match PREFIXES.iter().find_map(|it| name.strip_prefix(it)) {
        Some(offset) if offset.is_empty() || offset.starts_with(['+', '-']) => {
            name.split_at(name.len() - offset.len())
        }
        _ if name == "Z" || name.starts_with(['+', '-']) => ("", name),
        _ => return is_region(name).then_some(Zone { name: Cow::Borrowed(name), offset: None }),
    };
    if offset.is_empty() {
        return Some(Zone { name: Cow::Borrowed(prefix), offset: Some(0) });
    }
    let seconds = match offset.as_bytes() {
        [sign @ (b'+' | b'-'), digit @ b'0'..=b'9'] => parse_offset(&[*sign, b'0', *digit])?,
        bytes => parse_offset(bytes)?,
    };
    let mut written = prefix.as_bytes().to_vec();
    if prefix.is_empty() || seconds != 0 {
        write_offset(&mut written, seconds);
    }
    let name = Cow::Owned(String::from_utf8(written).ok()?);
    Some(Zone { name, offset: Some(seconds) })
}

fn is_region(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-+".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_letter) {
        return false;
    }
    let line = format!("\n{name}\n");
    memmem::find(REGIONS.as_bytes(), line.as_bytes()).is_some()
        || REGIONS.strip_prefix(name).is_some_and(|rest| rest.starts_with('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `ZoneId.of` of Java 17.
    #[test]
    fn zones_are_those_that_java_knows() {
        for name in [
            "Africa/Abidjan",
            "Asia/Shanghai",
            "America/Argentina/Buenos_Aires",
            "America/Port-au-Prince",
            "Etc/GMT+8",
            "Zulu",
            "GMT0",
            "UTC",
            "UT",
            "Z",
            "UTC+8",
            "GMT-08:30",
            "UT+080000",
            "+8",
            "-0800",
            "+18:00",
        ] {
            assert!(parse_zone(name).is_some(), "{name}");
        }
        for name in [
            "",
            "Mars/Olympus",
            "Asia",
            "Shanghai",
            "asia/shanghai",
            "utc",
            "z",
            "EST",
            "CTT",
            "UTC+",
            "UTC+25",
            "+18:01",
            "x y",
            "Asia/Shanghai\n",
            "Asia/Shanghai\nAsia/Singapore",
        ] {
            assert_eq!(parse_zone(name), None, "{name:?}");
        }
        let lines: Vec<&str> = REGIONS.lines().collect();
        assert!(lines.is_sorted() && lines.iter().all(|name| parse_zone(name).is_some()));
    }

    #[test]
    fn offsets_are_as_java_writes_them() {
        for (name, written, offset) in [
            ("UTC+8", "UTC+08:00", Some(28_800)),
            ("GMT-0830", "GMT-08:30", Some(-30_600)),
            ("UT+00", "UT", Some(0)),
            ("UTC", "UTC", Some(0)),
            ("+8", "+08:00", Some(28_800)),
            ("+0000", "Z", Some(0)),
            ("GMT0", "GMT0", None),
            ("Asia/Shanghai", "Asia/Shanghai", None),
        ] {
            assert_eq!(parse_zone(name), Some(Zone { name: written.into(), offset }), "{name}");
        }
    }
}
