//! Writes JSONB files for fastjson2 to read: the vectors, turned to JSON and back, with and
//! without their declared types. interop/vectors-jsonb/README.md says how Java checks them.

use std::error::Error;
use std::fs;
use std::path::Path;

use java_json::JsonOptions;
use java_json::json::JsonReader;
use java_json::{JavaType, Limits};
use jsonb::{Decoder, Encoder, json_to_jsonb, jsonb_to_json};

/// Each vector and the type that a parameter for it is declared as.
const TYPES: &[(&str, &str)] = &[
    ("null", "java.lang.String"),
    ("true", "boolean"),
    ("false", "java.lang.Boolean"),
    ("ints", "int[]"),
    ("longs", "long[]"),
    ("doubles", "double[]"),
    ("floats", "float[]"),
    ("float", "float"),
    ("shorts", "short[]"),
    ("booleans", "boolean[]"),
    ("chars", "char[]"),
    ("dates", "java.util.Date[]"),
    ("date-minute", "java.util.Date"),
    ("date-milli", "java.util.Date"),
    ("string-empty", "java.lang.String"),
    ("string-32769", "java.lang.String"),
    ("string-chinese", "java.lang.String"),
    ("string-mixed", "java.lang.String"),
    ("string-emojis", "java.lang.String"),
    ("binary-0", "byte[]"),
    ("binary-15", "byte[]"),
    ("binary-16", "byte[]"),
    ("binary-chunks", "byte[]"),
    ("list-empty", "java.util.List"),
    ("list-8", "java.util.List<java.lang.Integer>"),
    ("list-linked", "java.util.LinkedList"),
    ("set-linked", "java.util.Set<java.lang.String>"),
    ("list-type-refs", "java.util.List<java.util.LinkedList<java.lang.Integer>>"),
    ("strings", "java.lang.String[]"),
    ("ints-2d", "int[][]"),
    ("integers", "java.lang.Integer[]"),
    ("map-empty", "java.util.Map"),
    ("map-tree", "java.util.TreeMap"),
    ("map-hash", "java.util.Map<java.lang.String, java.lang.String>"),
    ("shared", "java.util.List"),
    ("pojo", "com.acme.Order"),
    ("pojo-list", "java.util.List<com.acme.Item>"),
    ("pojo-array", "com.acme.Item[]"),
    ("enum", "com.acme.Color"),
    ("enum-body", "com.acme.Color"),
    ("enums", "com.acme.Color[]"),
    ("big-decimal", "java.math.BigDecimal"),
    ("big-decimal-long", "java.math.BigDecimal"),
    ("big-integer", "java.math.BigInteger"),
    ("big-integer-zero", "java.math.BigInteger"),
    ("uuid", "java.util.UUID"),
    ("locale", "java.util.Locale"),
    ("class", "java.lang.Class"),
    ("sql-date", "java.sql.Date"),
    ("sql-timestamp", "java.sql.Timestamp"),
    ("local-date", "java.time.LocalDate"),
    ("local-time", "java.time.LocalTime"),
    ("local-time-short", "java.time.LocalTime"),
    ("local-date-time", "java.time.LocalDateTime"),
    ("instant", "java.time.Instant"),
    ("duration", "java.time.Duration"),
    ("duration-negative", "java.time.Duration"),
    ("duration-zero", "java.time.Duration"),
    ("period", "java.time.Period"),
    ("year", "java.time.Year"),
    ("year-month", "java.time.YearMonth"),
    ("month-day", "java.time.MonthDay"),
    ("zone-offset", "java.time.ZoneOffset"),
    ("zone-id", "java.time.ZoneId"),
    ("offset-date-time", "java.time.OffsetDateTime"),
    ("zoned-date-time", "java.time.ZonedDateTime"),
    ("local-dates", "java.util.List<java.time.LocalDate>"),
    ("atomic-integer", "java.util.concurrent.atomic.AtomicInteger"),
    ("atomic-long", "java.util.concurrent.atomic.AtomicLong"),
    ("atomic-boolean", "java.util.concurrent.atomic.AtomicBoolean"),
    ("currency", "java.util.Currency"),
    ("enum-set", "java.util.EnumSet<com.acme.Color>"),
    ("deque", "java.util.ArrayDeque"),
    ("queue-priority", "java.util.PriorityQueue"),
    ("map-concurrent", "java.util.concurrent.ConcurrentHashMap"),
    ("big-decimals", "java.math.BigDecimal[]"),
    ("wide", "com.acme.Wide"),
];

/// Vectors that Java reads where nothing is declared, because they say their classes themselves.
const SELF_TOLD: &[&str] =
    &["list-8", "map-tree", "map-hash", "pojo", "pojo-list", "shared", "true", "string-mixed"];

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: jsonb_java_check FOLDER")?;
    let dir = Path::new(&dir);
    fs::create_dir_all(dir)?;
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    for (name, ty) in TYPES {
        let bytes = fs::read(vectors.join(format!("{name}.bin")))?;
        let json = to_json(&bytes, &JsonOptions::default())?;
        let ty = JavaType::parse(ty)?;
        fs::write(dir.join(format!("{name}@json.bin")), from_json(&json, Some(&ty))?)?;
        if !ty.is_primitive() {
            // As an element of a list of objects, where Java knows no type.
            let open = JavaType::parse(&format!("java.util.List<{ty}>"))?;
            let list = [b"[", &*json, b"]"].concat();
            let bytes = from_json(&list, Some(&open))?;
            fs::write(dir.join(format!("{name}@element.bin")), bytes)?;
        }
    }
    let opts = JsonOptions { class_name: true, ..JsonOptions::default() };
    for name in SELF_TOLD {
        let bytes = fs::read(vectors.join(format!("{name}.bin")))?;
        let json = to_json(&bytes, &opts)?;
        fs::write(dir.join(format!("{name}@class.bin")), from_json(&json, None)?)?;
    }
    Ok(())
}

fn to_json(bytes: &[u8], opts: &JsonOptions) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut json = Vec::new();
    jsonb_to_json(&mut Decoder::new(bytes, Limits::default()), &mut json, opts)?;
    // JSON does not tell a long from an int, in a map of anything.
    let text = String::from_utf8(json)?;
    let long = r#""extra":{"k":{"class":"java.lang.Long","value":1}}"#;
    Ok(text.replace(r#""extra":{"k":1}"#, long).into_bytes())
}

fn from_json(json: &[u8], ty: Option<&JavaType>) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut out = Vec::new();
    json_to_jsonb(&mut JsonReader::new(json, Limits::default()), ty, &mut Encoder::new(&mut out))?;
    Ok(out)
}
