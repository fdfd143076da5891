//! Whether a text names a time zone, as Java's `ZoneId.of` reads it.
//!
//! Of a zone that it does not know, hessian-lite makes null, and fastjson, too. What Java knows by
//! name is in its copy of the time zone database, whose names change about once a year.

use memchr::memmem;

use super::parse_offset;

/// The names of regions, one a line: those of Java 17, and later ones. They are from the IANA time
/// zone database, which is in the public domain. `EST`, `MST` and `HST` are names in Java 23 only.
const REGIONS: &str = include_str!("zones.txt");
/// What may stand before an offset, or alone.
const PREFIXES: [&str; 3] = ["UTC", "GMT", "UT"];

/// Whether Java knows a zone of this name: `Asia/Shanghai`, `UTC`, `GMT+8`, `+08:00`, `Z`.
pub fn is_zone(name: &str) -> bool {
    if name == "Z" || name.starts_with(['+', '-']) {
        return is_offset(name);
    }
    let offset = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix));
    if offset.is_some_and(|offset| offset.is_empty() || is_offset(offset)) {
        return true;
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"/_-+".contains(&byte);
    !name.is_empty() && name.bytes().all(is_name) && is_region(name)
}

fn is_region(name: &str) -> bool {
    let line = format!("\n{name}\n");
    memmem::find(REGIONS.as_bytes(), line.as_bytes()).is_some()
        || REGIONS.strip_prefix(name).is_some_and(|rest| rest.starts_with('\n'))
}

/// An offset with a sign, whose hour may have one digit.
fn is_offset(text: &str) -> bool {
    let is_short = matches!(text.as_bytes(), [b'+' | b'-', digit] if digit.is_ascii_digit());
    is_short || text != "z" && parse_offset(text.as_bytes()).is_some()
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
            assert!(is_zone(name), "{name}");
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
            assert!(!is_zone(name), "{name:?}");
        }
        let lines: Vec<&str> = REGIONS.lines().collect();
        assert!(lines.is_sorted() && lines.iter().all(|name| is_zone(name)));
    }
}
