//! What depends on the serialization is asked of the table: no other source names one.
//!
//! Tests may name them, and so may what exists for fuzzing.

use std::fs;
use std::path::{Path, PathBuf};

use dubbo_proto::Serialization;

/// Where the table is, below `crates/`.
const TABLE: &str = "dubbo-proto/src/serialization";

/// The RPC library has codecs of its own, with names of their own.
const RPC_CODECS: [&str; 2] = ["link/src/codec", "lab/src/rpc"];

#[test]
fn only_the_table_names_serializations() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).expect("a folder of crates can be read") {
        sources(&entry.expect("it has entries").path().join("src"), &mut files);
    }
    assert!(100 < files.len(), "only {} sources found", files.len());
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&crates).expect("it is a path below").display().to_string();
        let source = fs::read_to_string(&file).expect("a source can be read");
        let mut spared = RPC_CODECS.iter().chain([&TABLE]);
        if !spared.any(|folder| name.starts_with(folder)) {
            found.extend(named(&source).into_iter().map(|line| format!("{name}: {line}")));
        }
    }
    assert!(
        found.is_empty(),
        "ask the table of serializations instead of naming one:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_name_is_found_wherever_it_is() {
    let source = "// Serialization::Other\nmatch it {\n    Serialization::Fastjson => 1,\n    \
                  Serialization::Other(_) => 2,\n    Serialization::DEFAULT => 3,\n}\n\
                  use Serialization::{Hessian2};\n\
                  let name = \"hessian2\"; // \"fastjson\"\n\
                  let names = \"hessian2 or fastjson\";\n\
                  #[cfg(test)]\nmod tests {\n    Serialization::Hessian2\n}\n";
    let expected = [
        "Serialization::Fastjson => 1,",
        "Serialization::Other(_) => 2,",
        "use Serialization::{Hessian2};",
        "let name = \"hessian2\"; // \"fastjson\"",
    ];
    assert_eq!(named(source), expected);
}

/// The lines of a source, without its tests, that name a serialization, as a variant or in quotes.
fn named(source: &str) -> Vec<&str> {
    let quoted: Vec<String> =
        Serialization::WRITTEN.iter().map(|it| format!("\"{}\"", it.name())).collect();
    let variants: Vec<String> = Serialization::WRITTEN.iter().map(|it| format!("{it:?}")).collect();
    let names_one = |line: &&str| {
        let code = line.split("//").next().unwrap_or_default();
        quoted.iter().any(|name| code.contains(name))
            || code.split("Serialization::").skip(1).any(|rest| {
                let rest = rest.trim_start_matches('{');
                let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
                let name = &rest[..end];
                name.is_empty() || name == "Other" || variants.iter().any(|variant| variant == name)
            })
    };
    let code = source.lines().take_while(|line| !line.starts_with("mod tests {"));
    code.map(str::trim).filter(names_one).collect()
}

/// All sources but those of tests, and of what exists for them or for fuzzing.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("it has entries").path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("tests" | "tests.rs" | "testing.rs" | "exercise" | "exercise.rs") | None => {}
            Some(_) if path.is_dir() => sources(&path, files),
            Some(name) if name.ends_with(".rs") => files.push(path),
            Some(_) => {}
        }
    }
}
