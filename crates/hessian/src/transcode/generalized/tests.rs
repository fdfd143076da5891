//! The beans are what providers of Dubbo 2.7.15 and 3.0.15 answered to generic calls.

use super::*;

fn fold(json: &str) -> String {
    let folded = fold_generalized(json.as_bytes(), &JsonOptions::default());
    folded.map_or_else(|| json.to_owned(), |text| String::from_utf8(text).unwrap())
}

const CHRONOLOGY: &str = r#""chronology":{"class":"java.time.chrono.IsoChronology","id":"ISO","calendarType":"iso8601"}"#;
const OFFSET: &str = r#"{"class":"java.time.ZoneOffset","id":"-03:30","totalSeconds":-12600,"rules":{"class":"java.time.zone.ZoneRules","fixedOffset":true,"transitionRules":[],"transitions":[]}}"#;

#[test]
fn java_time() {
    let date = format!(
        r#""dayOfWeek":"FRIDAY","month":"DECEMBER","year":9999,"dayOfMonth":31,"dayOfYear":365,"era":"CE","monthValue":12,{CHRONOLOGY},"leapYear":false"#
    );
    let time = r#""hour":1,"minute":2,"second":3,"nano":5"#;
    for (bean, text) in [
        (format!(r#"{{{date},"class":"java.time.LocalDate"}}"#), r#""9999-12-31""#),
        (format!(r#"{{"class":"java.time.LocalTime",{time}}}"#), r#""01:02:03.000000005""#),
        (
            format!(r#"{{{date},{time},"class":"java.time.LocalDateTime"}}"#),
            r#""9999-12-31T01:02:03.000000005""#,
        ),
        (
            format!(r#"{{{date},{time},"offset":{OFFSET},"class":"java.time.OffsetDateTime"}}"#),
            r#""9999-12-31T01:02:03.000000005-03:30""#,
        ),
        (
            format!(
                r#"{{{date},{time},"zone":{{"class":"java.time.ZoneRegion","id":"America/St_Johns","rules":{{}}}},"offset":{OFFSET},"class":"java.time.ZonedDateTime"}}"#
            ),
            r#""9999-12-31T01:02:03.000000005-03:30[America/St_Johns]""#,
        ),
        (
            format!(r#"{{{time},"offset":{OFFSET},"class":"java.time.OffsetTime"}}"#),
            r#""01:02:03.000000005-03:30""#,
        ),
        (OFFSET.to_owned(), r#""-03:30""#),
        (
            r#"{"class":"java.time.Instant","epochSecond":-1,"nano":999999999}"#.to_owned(),
            r#""1969-12-31T23:59:59.999999999Z""#,
        ),
        (
            r#"{"class":"java.time.Duration","nano":1,"negative":true,"seconds":"-1","units":["SECONDS","NANOS"],"zero":false}"#.to_owned(),
            r#""PT-0.999999999S""#,
        ),
        (
            format!(r#"{{{CHRONOLOGY},"class":"java.time.Period","days":3,"months":-2,"years":1}}"#),
            r#""P1Y-2M3D""#,
        ),
        (r#"{"class":"java.time.Year","leap":true,"value":2024}"#.to_owned(), "2024"),
        (
            r#"{"class":"java.time.YearMonth","leapYear":true,"month":"FEBRUARY","monthValue":2,"year":2024}"#.to_owned(),
            r#""2024-02""#,
        ),
        (
            r#"{"class":"java.time.MonthDay","dayOfMonth":29,"month":"FEBRUARY","monthValue":2}"#.to_owned(),
            r#""--02-29""#,
        ),
    ] {
        assert_eq!(fold(&bean), text, "{bean}");
    }
}

#[test]
fn other_values_of_the_jdk() {
    for (bean, text) in [
        (
            r#"{"class":"java.util.UUID","leastSignificantBits":5,"mostSignificantBits":-1}"#,
            r#""ffffffff-ffff-ffff-0000-000000000005""#,
        ),
        (
            r#"{"class":"java.util.Locale","country":"RS","language":"sr","script":"Latn","variant":""}"#,
            r#""sr_RS_#Latn""#,
        ),
        (r#"{"class":"java.util.Locale","country":"","language":"de","variant":""}"#, r#""de""#),
        (r#"{"class":"java.util.Currency","currencyCode":"EUR","symbol":"€"}"#, r#""EUR""#),
        (
            r#"{"class":"java.net.URI","scheme":"http","rawSchemeSpecificPart":"//h/a%20b?q","rawFragment":"f","path":"/a b"}"#,
            r#""http://h/a%20b?q#f""#,
        ),
        (
            r#"{"class":"java.util.concurrent.atomic.AtomicBoolean","acquire":true,"opaque":true,"plain":true}"#,
            "true",
        ),
        (
            r#"{"class":"java.lang.StackTraceElement","className":"a.B","methodName":"m","fileName":"B.java","lineNumber":3,"moduleName":null}"#,
            r#""a.B.m(B.java:3)""#,
        ),
        (
            r#"{"class":"java.util.GregorianCalendar","timeInMillis":5,"lenient":true}"#,
            r#""1970-01-01T00:00:00.005Z""#,
        ),
    ] {
        assert_eq!(fold(bean), text, "{bean}");
    }
}

#[test]
fn inside_of_other_values_and_as_keys() {
    let year = r#"{"class":"java.time.Year","value":2024}"#;
    let key = year.replace('"', "\\\"");
    assert_eq!(
        fold(&format!(r#"{{"a":[{year},{{"b":{year}}}],"n":1.50,"{key}":"k"}}"#)),
        r#"{"a":[2024,{"b":2024}],"n":1.50,"2024":"k"}"#
    );
    let date = r#"{"class":"java.time.LocalDate","year":2024,"monthValue":2,"dayOfMonth":29}"#;
    let key = date.replace('"', "\\\"");
    assert_eq!(fold(&format!(r#"{{"{key}":1,"b\"c":2}}"#)), r#"{"2024-02-29":1,"b\"c":2}"#);
}

#[test]
fn what_is_no_such_value_stays() {
    for json in [
        r#"{"class":"java.time.LocalDate","year":2024,"monthValue":13,"dayOfMonth":29}"#,
        r#"{"class":"java.time.LocalDate"}"#,
        r#"{"class":"java.util.UUID","leastSignificantBits":5}"#,
        r#"{"class":"java.util.Optional","empty":false,"present":true}"#,
        r#"{"class":"com.acme.Year","value":2024}"#,
        r#"["java.time.Year"]"#,
        r#"{"class":{"a":"java.time.Year"},"value":1}"#,
        "{\"class\":\"java.time.Year\",",
    ] {
        assert_eq!(fold(json), json);
    }
}

/// Each level of keys may be as deep as a message, and the text doubles with each.
#[test]
fn keys_in_keys_end_somewhere() {
    let mut json = OFFSET.to_owned();
    for _ in 0..12 {
        let (open, close) = ("[".repeat(60), "]".repeat(60));
        json = format!("{{\"a\":{open}{{{}:1}}{close}}}", quoted(&json));
    }
    assert_eq!(fold(&json), json);
    assert_eq!(fold(&format!("{{\"a\":[1],{}:1}}", quoted(OFFSET))), r#"{"a":[1],"-03:30":1}"#);
}

fn quoted(text: &str) -> String {
    let mut out = Vec::new();
    json::write_string(&mut out, text);
    String::from_utf8(out).unwrap()
}
