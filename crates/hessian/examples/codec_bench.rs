//! What the codec costs: nanoseconds per value, single-threaded, for the shapes that matter.
//!
//! `cargo run --release -p hessian --features serde --example codec_bench -- COMMAND`, where
//! COMMAND is
//! - `write DIR`: each shape as `DIR/SHAPE.hessian` and `DIR/SHAPE.json`, for other programs;
//! - `time SECONDS [NAME]`: one line of JSON for each shape and step, or for those whose name
//!   begins so;
//! - `count NAME N`: one step N times and nothing else, for callgrind;
//! - `compare DIR`: whether what others wrote as `DIR/SHAPE.hessian` and `DIR/SHAPE.json` is the
//!   same.
//!
//! `decode` gives what a program keeps: `String`, a struct of them, a `Vec` of those, a
//! `HashMap<String, i32>` with std's hasher. `decode-borrowed` gives the same with `&str` into the
//! message.
//!
//! bench/src/scenario/codec.rs runs it beside hessian-lite and dubbo-go-hessian2.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use hessian::check::canonical;
use hessian::json::JsonReader;
use hessian::serde::{from_slice, to_writer};
use hessian::transcode::{JsonOptions, hessian_to_json, json_to_hessian};
use hessian::{Decoder, Encoder, JavaType, Limits};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One batch is at least this long.
const BATCH: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename = "org.dubmesh.bench.Order")]
struct BenchOrder {
    id: i64,
    customer: String,
    street: String,
    city: String,
    country: String,
    quantity: i32,
    price: f64,
    paid: bool,
    created: i64,
    comment: String,
    status: String,
    weight: f64,
}

/// The same where its texts are those of the message, as a program has it that is done with them
/// before it drops the message.
#[derive(Deserialize)]
#[serde(rename = "org.dubmesh.bench.Order")]
#[expect(dead_code, reason = "what is measured is how they come to be")]
struct OrderRef<'a> {
    id: i64,
    customer: &'a str,
    street: &'a str,
    city: &'a str,
    country: &'a str,
    quantity: i32,
    price: f64,
    paid: bool,
    created: i64,
    comment: &'a str,
    status: &'a str,
    weight: f64,
}

fn order(index: i32) -> BenchOrder {
    BenchOrder {
        id: 1_000_000 + i64::from(index),
        customer: format!("customer {index}"),
        street: format!("some street with a long name {index}"),
        city: format!("city {index}"),
        country: "CN".into(),
        quantity: index,
        price: 19.99,
        paid: true,
        created: 1_700_000_000_123,
        comment: "leave it at the door".into(),
        status: "SHIPPED".into(),
        weight: 1.234_567,
    }
}

/// One thing to do with a value; what it makes goes into the buffer, if it makes bytes.
type Step = Box<dyn FnMut(&mut Vec<u8>)>;

/// A shape's steps by their names, and its bytes in both formats.
struct Shape {
    name: &'static str,
    hessian: Vec<u8>,
    json: Vec<u8>,
    steps: Vec<(&'static str, Step)>,
}

fn shape<T>(name: &'static str, ty: &str, value: T) -> Result<Shape, Box<dyn Error>>
where
    T: Serialize + DeserializeOwned + PartialEq + 'static,
{
    let (mut hessian, mut json) = (Vec::new(), Vec::new());
    to_writer(&value, &mut hessian)?;
    let opts = JsonOptions::default();
    hessian_to_json(&mut Decoder::new(&hessian, Limits::default()), &mut json, &opts)?;
    assert!(from_slice::<T>(&hessian)? == value, "{name} is read as it was written");
    let ty = JavaType::parse(ty)?;
    let (bytes, text) = (hessian.clone(), json.clone());
    let (in_decode, in_skip, in_json) = (hessian.clone(), hessian.clone(), hessian.clone());
    let steps: Vec<(&'static str, Step)> = vec![
        ("encode", Box::new(move |out| drop(to_writer(black_box(&value), out)))),
        (
            "decode",
            Box::new(move |_| {
                black_box(from_slice::<T>(black_box(&in_decode)).is_ok());
            }),
        ),
        (
            "to-json",
            Box::new(move |out| {
                let mut decoder = Decoder::new(black_box(&in_json), Limits::default());
                black_box(hessian_to_json(&mut decoder, out, &opts).is_ok());
            }),
        ),
        (
            "from-json",
            Box::new(move |out| {
                let mut reader = JsonReader::new(black_box(&text), Limits::default());
                let result = json_to_hessian(&mut reader, Some(&ty), &mut Encoder::new(out));
                black_box(result.is_ok());
            }),
        ),
        (
            "skip",
            Box::new(move |_| {
                let mut decoder = Decoder::new(black_box(&in_skip), Limits::default());
                black_box(decoder.skip_value().is_ok());
            }),
        ),
    ];
    Ok(Shape { name, hessian: bytes, json, steps })
}

/// Adds the step of decoding into a type that borrows from the message.
fn with_borrowed(mut shape: Shape, read: fn(&[u8]) -> bool) -> Shape {
    let bytes = shape.hessian.clone();
    assert!(read(&bytes), "{} can be borrowed", shape.name);
    let step = move |_: &mut Vec<u8>| {
        black_box(read(black_box(&bytes)));
    };
    shape.steps.push(("decode-borrowed", Box::new(step)));
    shape
}

/// Reads a value, lets it be seen, and drops it.
fn reads<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> bool {
    black_box(from_slice::<T>(bytes)).is_ok()
}

fn shapes() -> Result<Vec<Shape>, Box<dyn Error>> {
    let class = "org.dubmesh.bench.Order";
    let map: HashMap<String, i32> = (0..50).map(|n| (format!("key{n}"), n * 1000)).collect();
    Ok(vec![
        shape("string-100", "java.lang.String", "x".repeat(100))?,
        with_borrowed(shape("pojo-12", class, order(7))?, |bytes| reads::<OrderRef<'_>>(bytes)),
        with_borrowed(
            shape(
                "pojos-100",
                &format!("java.util.List<{class}>"),
                (0..100).map(order).collect::<Vec<_>>(),
            )?,
            |bytes| reads::<Vec<OrderRef<'_>>>(bytes),
        ),
        with_borrowed(
            shape("map-50", "java.util.Map<java.lang.String,java.lang.Integer>", map)?,
            |bytes| reads::<HashMap<&str, i32>>(bytes),
        ),
        shape("text-1m", "java.lang.String", "0123456789abcdef".repeat(65_536))?,
        shape("chinese-1m", "java.lang.String", "中文".repeat(174_762))?,
    ])
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match *args.as_slice() {
        ["write", dir] => write(Path::new(dir)),
        ["time", seconds] => time(seconds.parse()?, ""),
        ["time", seconds, name] => time(seconds.parse()?, name),
        ["count", name, n] => count(name, n.parse()?),
        ["compare", dir] => compare(Path::new(dir)),
        _ => Err("usage: codec_bench write DIR | time SECONDS [NAME] | count NAME N | compare DIR"
            .into()),
    }
}

fn write(dir: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(dir)?;
    for shape in shapes()? {
        fs::write(dir.join(format!("{}.hessian", shape.name)), &shape.hessian)?;
        fs::write(dir.join(format!("{}.json", shape.name)), &shape.json)?;
    }
    Ok(())
}

fn compare(dir: &Path) -> Result<(), Box<dyn Error>> {
    for shape in shapes()? {
        let name = shape.name;
        let json = fs::read(dir.join(format!("{name}.json")))?;
        if canonical(&json) != canonical(&shape.json) {
            return Err(format!("{name}.json is another value").into());
        }
        let hessian = fs::read(dir.join(format!("{name}.hessian")))?;
        let mut json = Vec::new();
        let mut decoder = Decoder::new(&hessian, Limits::default());
        hessian_to_json(&mut decoder, &mut json, &JsonOptions::default())?;
        if canonical(&json) != canonical(&shape.json) || !decoder.is_at_end() {
            return Err(format!("{name}.hessian is another value").into());
        }
    }
    Ok(())
}

fn count(name: &str, n: u64) -> Result<(), Box<dyn Error>> {
    let mut out = Vec::new();
    for shape in shapes()? {
        for (step, mut run) in shape.steps {
            if name == format!("{}/{step}", shape.name) {
                // Once before: whoever counts takes the difference of two runs.
                for _ in 0..=n {
                    out.clear();
                    run(&mut out);
                }
            }
        }
    }
    Ok(())
}

fn time(seconds: f64, only: &str) -> Result<(), Box<dyn Error>> {
    let mut out = Vec::new();
    for shape in shapes()? {
        for (step, mut run) in shape.steps {
            let name = format!("{}/{step}", shape.name);
            if name.starts_with(only) {
                let (median, best) = measure(seconds, || {
                    out.clear();
                    run(&mut out);
                    black_box(out.last());
                });
                let len = if step == "from-json" { shape.json.len() } else { shape.hessian.len() };
                println!(
                    "{{\"name\":\"{name}\",\"bytes\":{len},\"ns\":{median:.1},\"best_ns\":{best:.1}}}"
                );
            }
        }
    }
    Ok(())
}

/// The median and the best of batches, in nanoseconds a run.
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn measure(seconds: f64, mut run: impl FnMut()) -> (f64, f64) {
    let (mut batches, mut n_runs) = (Vec::new(), 1u64);
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while batches.is_empty() || Instant::now() < end {
        let start = Instant::now();
        (0..n_runs).for_each(|_| run());
        let elapsed = start.elapsed();
        if elapsed < BATCH {
            n_runs *= 2;
        } else {
            batches.push(elapsed.as_nanos() as f64 / n_runs as f64);
        }
    }
    batches.sort_by(f64::total_cmp);
    (batches[batches.len() / 2], batches[0])
}
