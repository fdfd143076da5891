//! Writes Hessian files for hessian-lite to read: the vectors, decoded and encoded again, and
//! values made from JSON and from Rust structs. interop/vectors/README.md says how Java checks
//! them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use hessian::json::JsonReader;
use hessian::serde::{Date, to_vec};
use hessian::transcode::json_to_hessian;
use hessian::{Decoder, Encoder, JavaType, Limits};
use serde::Serialize;

/// The name of the vector, the declared type, and the JSON of the same value.
const FROM_JSON: &[(&str, &str, &str)] = &[
    ("null", "java.lang.String", "null"),
    ("true", "boolean", "true"),
    (
        "ints",
        "int[]",
        "[0,-16,47,-17,48,-2048,2047,-2049,2048,-262144,262143,-262145,262144,-2147483648,2147483647]",
    ),
    (
        "longs",
        "[J",
        r#"[0,-8,15,-9,16,-2048,2047,-2049,2048,-262144,262143,-262145,262144,-2147483648,2147483647,-2147483649,2147483648,"9007199254740993",-9223372036854775808,9223372036854775807]"#,
    ),
    (
        "doubles",
        "double[]",
        r#"[0,1,-128,127,-129,128,-32768,32767,32768,12.25,99.8,0.001,1e300,5e-324,3.141592653589793,-2147483.648,1.7976931348623157e308,"NaN","Infinity","-Infinity"]"#,
    ),
    ("floats", "float[]", "[99.8,0.1,3.4028235e38,1.5]"),
    ("float", "java.lang.Float", "99.8"),
    ("shorts", "short[]", "[-1,300]"),
    ("booleans", "boolean[]", "[true,\"false\"]"),
    ("chars", "char[]", r#"["a","中"]"#),
    (
        "dates",
        "java.util.Date[]",
        r#"[0,"1970-01-01T00:01:00Z","1969-12-31T23:59:00Z",1,1700000000123,9223372036854775807]"#,
    ),
    ("string-mixed", "java.lang.String", r#""é中😀 \"\\\n\t\u0001\u007f\u0000""#),
    ("binary-15", "byte[]", r#""AAECAwQFBgcICQoLDA0O""#),
    ("list-empty", "java.util.List", "[]"),
    ("list-8", "java.util.List", "[1,2,3,4,5,6,7,8]"),
    ("list-linked", "java.util.LinkedList", r#"["a","b"]"#),
    ("set-linked", "java.util.Set", r#"["a","b"]"#),
    ("list-type-refs", "java.util.List<java.util.LinkedList>", "[[0],[1],[2]]"),
    ("strings", "java.lang.String[]", r#"["a",null,"b"]"#),
    ("objects", "java.lang.Object[]", r#"["a",1,null,{"class":"java.lang.Long","value":2},1.5]"#),
    ("ints-2d", "int[][]", "[[1],[2,3]]"),
    ("integers", "java.lang.Integer[]", "[1,2]"),
    ("map-empty", "java.util.Map", "{}"),
    (
        "map-linked",
        "java.util.LinkedHashMap",
        r#"{"s":"text","i":1,"n":null,"l":[{"class":"java.lang.Long","value":1},{"class":"java.lang.Long","value":2}]}"#,
    ),
    ("map-tree", "java.util.TreeMap", r#"{"a":1,"b":2}"#),
    ("map-tree", "java.lang.Object", r#"{"class":"java.util.TreeMap","a":1,"b":2}"#),
    ("map-hash", "java.util.Map<java.lang.String,java.lang.String>", r#"{"k":"v"}"#),
    (
        "pojo",
        "com.acme.Order",
        r#"{"id":7,"total":9007199254740993,"small":3,"tiny":-4,"letter":"x","paid":true,"price":12.5,"weight":99.8,"name":"café","at":{"class":"java.util.Date","value":1700000000123},"amount":{"class":"java.math.BigDecimal","value":"1234567890.12345678901234567890"},"color":{"class":"com.acme.Color","name":"GREEN"},"raw":{"class":"[B","value":"AQID"},"items":[{"class":"com.acme.Item","sku":"a","count":1},{"class":"com.acme.Item","sku":"b","count":2}],"extra":{"k":{"class":"java.lang.Long","value":1}},"next":null}"#,
    ),
    ("pojo-array", "com.acme.Item[]", r#"[{"sku":"a","count":1},null]"#),
    ("enum", "com.acme.Color", r#""RED""#),
    ("enums", "com.acme.Color[]", r#"["RED","GREEN","RED"]"#),
    ("big-decimal", "java.math.BigDecimal", "1E+3"),
    ("big-integer", "java.math.BigInteger", "-123456789012345678901234567890"),
    ("big-integer-zero", "java.math.BigInteger", "0"),
    ("uuid", "java.util.UUID", r#""123e4567-e89b-12d3-a456-426614174000""#),
    ("locale", "java.util.Locale", r#""zh_CN""#),
    ("class", "java.lang.Class", r#""java.lang.String""#),
    ("sql-date", "java.sql.Date", "1700000000000"),
    ("sql-timestamp", "java.sql.Timestamp", r#""2023-11-14T22:13:20.123Z""#),
    ("local-date", "java.time.LocalDate", r#""2024-02-29""#),
    ("local-time", "java.time.LocalTime", r#""13:05:59.12""#),
    ("local-date-time", "java.time.LocalDateTime", r#""2024-02-29T13:05:59.120""#),
    ("instant", "java.time.Instant", r#""2023-11-14T22:13:20.123456789Z""#),
    ("duration", "java.time.Duration", r#""PT1H2M5.5S""#),
    ("duration-negative", "java.time.Duration", r#""PT-1.5S""#),
    ("period", "java.time.Period", r#""P1Y-2M30D""#),
    ("year", "java.time.Year", "2024"),
    ("year-month", "java.time.YearMonth", r#""2024-02""#),
    ("month-day", "java.time.MonthDay", r#""--02-29""#),
    ("zone-offset", "java.time.ZoneOffset", r#""+05:30""#),
    ("zone-id", "java.time.ZoneId", r#""Asia/Shanghai""#),
    ("offset-time", "java.time.OffsetTime", r#""13:05:59.120+08:00""#),
    ("offset-date-time", "java.time.OffsetDateTime", r#""2024-02-29T13:05:59.120-03:00""#),
    (
        "zoned-date-time",
        "java.time.ZonedDateTime",
        r#""2024-02-29T13:05:59.120+08:00[Asia/Shanghai]""#,
    ),
    ("local-dates", "java.util.List<java.time.LocalDate>", r#"["2024-02-29","2024-03-01"]"#),
    ("vector", "java.util.Vector", ABC),
    ("stack", "java.util.Stack", ABC),
    ("deque", "java.util.ArrayDeque", ABC),
    ("queue-priority", "java.util.PriorityQueue", ABC),
    ("set-hash", "java.util.HashSet", ABC),
    ("set-tree", "java.util.SortedSet", ABC),
    ("list-copy-on-write", "java.util.concurrent.CopyOnWriteArrayList", ABC),
    (
        "list-mixed",
        "java.util.List",
        r#"[1,2,"c",3,{"class":"java.lang.Long","value":4},5.5,6.5,true,"s",null,{"class":"java.math.BigDecimal","value":"7.70"},{"class":"[B","value":[8]},{"class":"java.util.Date","value":9},{"class":"com.acme.Color","name":"RED"},{"class":"int[]","value":[10]},{"class":"com.acme.Item","sku":"i","count":11}]"#,
    ),
    ("enum-set", "java.util.EnumSet<com.acme.Color>", r#"["RED","GREEN"]"#),
    (
        "enum-set",
        "java.lang.Object",
        r#"{"class":"java.util.EnumSet<com.acme.Color>","value":["RED","GREEN"]}"#,
    ),
    ("enum-set-empty", "java.util.EnumSet<com.acme.Color>", "[]"),
    ("enum-of-java", "java.util.concurrent.TimeUnit", "\"SECONDS\""),
    ("map-concurrent", "java.util.concurrent.ConcurrentMap", K1),
    ("map-skip-list", "java.util.concurrent.ConcurrentNavigableMap", K1),
    ("hashtable", "java.util.Hashtable", K1),
    ("properties", "java.util.Properties", r#"{"k":"v"}"#),
    (
        "map-int-keys",
        "java.util.TreeMap<java.lang.Integer,java.lang.String>",
        r#"{"1":"one","-2":"minus two"}"#,
    ),
    (
        "wide",
        "com.acme.Wide",
        r#"{"bytes":{"class":"[B","value":"Af8="},"shorts":{"class":"[S","value":[-300,300]},"chars":{"class":"[C","value":"a中"},"ints":{"class":"[I","value":[7]},"longs":{"class":"[J","value":[1099511627776]},"floats":{"class":"[F","value":[99.8]},"doubles":{"class":"[D","value":[0.5]},"booleans":{"class":"[Z","value":[true]},"strings":{"class":"java.lang.String[]","value":["s",null]},"aByte":5,"aShort":-6,"character":"é","integer":8,"aLong":9,"aFloat":99.8,"aDouble":1e300,"aBoolean":false,"colors":{"class":"com.acme.Color[]","value":["GREEN"]},"items":{"class":"com.acme.Item[][]","value":[[{"sku":"a","count":1}],[]]}}"#,
    ),
    ("byte", "byte", "-5"),
    ("short", "java.lang.Short", "300"),
    ("char", "char", "\"c\""),
    ("optional", "java.util.Optional<java.lang.String>", "\"x\""),
    ("optional-empty", "java.util.Optional", "null"),
    ("atomic-integer", "java.util.concurrent.atomic.AtomicInteger", "7"),
    ("atomic-long", "java.util.concurrent.atomic.AtomicLong", "1099511627776"),
    ("atomic-boolean", "java.util.concurrent.atomic.AtomicBoolean", "true"),
    ("currency", "java.util.Currency", "\"CNY\""),
    ("uri", "java.net.URI", "\"http://acme.com/a?b=c\""),
    ("file", "java.io.File", "\"/tmp/x\""),
    ("locale-root", "java.util.Locale", "\"en\""),
    ("class-array", "java.lang.Class[]", r#"["int","[I","[Ljava.lang.String;","com.acme.Item"]"#),
    ("sql-time", "java.sql.Time", "3600000"),
    ("sql-timestamp-nanos", "java.sql.Timestamp", "\"2024-02-29T13:05:59.123456789Z\""),
    ("calendar", "java.util.Calendar", "1700000000123"),
    ("big-integer-negative-word", "java.math.BigInteger", "\"-18446744069414584320\""),
    ("big-decimal-exponent", "java.math.BigDecimal", "-1.23E-10"),
    ("big-decimals", "java.math.BigDecimal[]", "[1,0E+7]"),
    ("local-date-far", "java.time.LocalDate", "\"-0044-03-15\""),
    ("local-date-max", "java.time.LocalDate", "\"+999999999-12-31\""),
    ("local-time-midnight", "java.time.LocalTime", "\"00:00\""),
    ("local-date-time-nanos", "java.time.LocalDateTime", "\"2024-02-29T00:00:00.000000001\""),
    ("zoned-utc", "java.time.ZonedDateTime", "\"2024-02-29T00:00:00.000000001Z\""),
    ("zoned-gap", "java.time.ZonedDateTime", "\"2024-10-27T02:30+01:00[Europe/Berlin]\""),
    (
        "offset-date-times",
        "java.util.List<java.time.OffsetDateTime>",
        r#"["2024-02-29T00:00:00.000000001Z","2024-02-29T00:00:00.000000001-01:02:03"]"#,
    ),
    ("year-negative", "java.time.Year", "-44"),
    ("day-of-week", "java.time.DayOfWeek", "\"MONDAY\""),
    ("dates-far", "java.util.Date[]", r#"["0001-01-01","9999-12-31T23:59:59.999Z",-1]"#),
    ("queue-linked-blocking", "java.util.concurrent.LinkedBlockingQueue", ABC),
    ("queue-priority-blocking", "java.util.concurrent.PriorityBlockingQueue", ABC),
    ("queue-concurrent", "java.util.concurrent.ConcurrentLinkedQueue", ABC),
    ("deque-blocking", "java.util.concurrent.BlockingDeque", ABC),
    ("deque-concurrent", "java.util.concurrent.ConcurrentLinkedDeque", ABC),
    ("set-copy-on-write", "java.util.concurrent.CopyOnWriteArraySet", ABC),
    ("set-skip-list", "java.util.concurrent.ConcurrentSkipListSet", ABC),
    ("map-weak", "java.util.WeakHashMap", K1),
    ("array-empty-ints", "int[]", "[]"),
    ("array-empty-objects", "java.lang.Object[]", "[]"),
    ("array-empty-pojos", "com.acme.Item[]", "[]"),
    ("array-bytes", "java.lang.Byte[]", "[1,null,-1]"),
    ("array-shorts", "java.lang.Short[]", "[1,null]"),
    ("array-integers", "java.lang.Integer[]", "[1,null]"),
    ("array-longs", "java.lang.Long[]", "[1,null,9007199254740993]"),
    ("array-floats", "java.lang.Float[]", "[99.8,null]"),
    ("array-doubles", "java.lang.Double[]", "[99.8,null]"),
    ("array-booleans", "java.lang.Boolean[]", "[true,null]"),
    ("array-characters", "java.lang.Character[]", "[\"a\",null]"),
    ("array-uuids", "java.util.UUID[]", "[\"00000000-0000-0001-0000-000000000002\",null]"),
    ("array-days", "java.time.LocalDate[]", "[\"2024-02-29\",null]"),
    ("array-big-integers", "java.math.BigInteger[]", "[10,null]"),
    ("array-sql-dates", "java.sql.Timestamp[]", "[1,null]"),
    ("array-lists", "java.util.List[]", "[[1],null]"),
    ("array-maps", "java.util.Map[]", "[{\"k\":1},null]"),
    ("array-enum-body", "com.acme.Color[][]", "[[\"GREEN\"],[]]"),
    ("array-texts-2d", "java.lang.String[][]", "[[\"a\"],null,[]]"),
    ("array-bytes-2d", "byte[][]", "[\"AQI\",[]]"),
    ("array-chars-2d", "char[][]", "[[\"a\",\"b\"],\"\"]"),
    ("array-floats-2d", "float[][]", "[[99.8],[]]"),
    ("array-objects-2d", "java.lang.Object[][]", "[[1,\"a\"],[null]]"),
    ("array-pojos-2d", "com.acme.Item[][]", "[[{\"sku\":\"a\",\"count\":1}],[]]"),
    ("array-longs-3d", "long[][][]", "[[[1099511627776],[]],[]]"),
    ("month", "java.time.Month", "\"MAY\""),
    ("zone-id-utc", "java.time.ZoneId", "\"UTC\""),
    ("zone-id-offset", "java.time.ZoneId", "\"GMT+08:30\""),
    ("offset-time-max", "java.time.OffsetTime", "\"23:59:59.999999999-18:00\""),
    ("locale-empty", "java.util.Locale", "\"\""),
    ("locale-script", "java.util.Locale", "\"zh_CN_#Hans\""),
    ("big-decimal-zeros", "java.math.BigDecimal", "0.00"),
    ("big-decimal-tiny", "java.math.BigDecimal", "1E-400"),
    ("big-integer-long", "java.math.BigInteger", "-9223372036854775808"),
    ("big-integer-2-64", "java.math.BigInteger", "18446744073709551616"),
    (
        "boxes",
        "com.acme.OddVectors$Boxes",
        r#"{"object":{"class":"[I","value":[9]},"state":{"class":"java.lang.Thread$State","name":"NEW"},"type":{"class":"java.lang.Class","value":"com.acme.Item"},"builder":null,"none":null,"texts":["a"],"number":{"class":"long","value":8},"aBoolean":true,"aChar":"7","aDouble":6.1,"aFloat":5.1,"aLong":{"class":"long","value":4},"anInt":3,"aShort":2,"aByte":1}"#,
    ),
    ("empty", "com.acme.OddVectors$Empty", "{}"),
    ("record", "com.acme.OddVectors$Point", r#"{"x":1,"label":"a","more":[2]}"#),
    ("string-max-char", "java.lang.String", "\"\u{ffff}\u{fffe}\u{feff}\u{e000}\""),
];

const ABC: &str = r#"["a","b","c"]"#;
const K1: &str = r#"{"k":1}"#;

/// Java's `com.acme.Item`.
#[derive(Serialize)]
#[serde(rename = "com.acme.Item")]
struct JavaItem {
    sku: String,
    count: i32,
}

/// Java's `com.acme.Color`.
#[derive(Serialize)]
#[serde(rename = "com.acme.Color", rename_all = "UPPERCASE")]
enum Color {
    Red,
    Green,
}

/// Java's `java.math.BigDecimal`.
#[derive(Serialize)]
#[serde(rename = "java.math.BigDecimal")]
struct BigDecimal {
    value: &'static str,
}

/// Java's `com.acme.Order`; its `next` is left out.
#[derive(Serialize)]
#[serde(rename = "com.acme.Order")]
struct JavaOrder {
    items: Vec<JavaItem>,
    color: Color,
    amount: BigDecimal,
    at: Date,
    id: i32,
    total: i64,
    small: i16,
    tiny: i8,
    letter: char,
    paid: bool,
    price: f64,
    weight: f32,
    name: &'static str,
    #[serde(with = "hessian::serde::bytes")]
    raw: Vec<u8>,
    extra: BTreeMap<&'static str, i64>,
}

/// Values of the table as Rust structs.
fn write_structs(dir: &Path) -> Result<usize, Box<dyn Error>> {
    let item = |sku: &str, count| JavaItem { sku: sku.into(), count };
    let order = JavaOrder {
        items: vec![item("a", 1), item("b", 2)],
        color: Color::Green,
        amount: BigDecimal { value: "1234567890.12345678901234567890" },
        at: Date(1_700_000_000_123),
        id: 7,
        total: 9_007_199_254_740_993,
        small: 3,
        tiny: -4,
        letter: 'x',
        paid: true,
        price: 12.5,
        weight: 99.8,
        name: "café",
        raw: vec![1, 2, 3],
        extra: BTreeMap::from([("k", 1)]),
    };
    let items: Vec<_> = (0..20).map(|n| item(&format!("sku{n}"), n)).collect();
    let files = [
        ("pojo", to_vec(&order)?),
        ("pojo-list", to_vec(&items)?),
        ("enum", to_vec(&Color::Red)?),
        ("enum-body", to_vec(&Color::Green)?),
        ("date-milli", to_vec(&Date(1_700_000_040_123))?),
        ("list-8", to_vec(&(1..9).collect::<Vec<i32>>())?),
        ("map-hash", to_vec(&BTreeMap::from([("k", "v")]))?),
    ];
    for (name, bytes) in &files {
        fs::write(dir.join(format!("{name}@serde.bin")), bytes)?;
    }
    Ok(files.len())
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: java_check DIR")?;
    let dir = Path::new(&dir);
    fs::create_dir_all(dir)?;
    let mut n_files = 0;
    for version in ["lite3.2.5", "lite3", "lite4"] {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(version);
        for entry in fs::read_dir(vectors)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).ok_or("a strange name")?;
            // Rust has no text with half of a surrogate pair, and Java no way to read an iterator
            // into what it was.
            if matches!(name, "string-lone-surrogate" | "string-swapped-surrogates" | "iterator") {
                continue;
            }
            let value = Decoder::new(&fs::read(&path)?, Limits::default()).read_value()?;
            let mut out = Vec::new();
            Encoder::new(&mut out).value(&value);
            fs::write(dir.join(format!("{name}@{version}.bin")), out)?;
            n_files += 1;
        }
    }
    for (index, (name, ty, json)) in FROM_JSON.iter().enumerate() {
        let mut out = Vec::new();
        let mut reader = JsonReader::new(json.as_bytes(), Limits::default());
        let ty = JavaType::parse(ty)?;
        json_to_hessian(&mut reader, Some(&ty), &mut Encoder::new(&mut out))
            .map_err(|error| format!("{name}: {error}"))?;
        reader.finish()?;
        fs::write(dir.join(format!("{name}@json{index}.bin")), out)?;
        n_files += 1;
    }
    n_files += write_structs(dir)?;
    println!("{n_files} files written");
    Ok(())
}
