//! Comments end before column 100, in all sources of this repository. rustfmt leaves them alone.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders with sources.
const FOLDERS: [&str; 5] = ["attack", "bench", "crates", "fuzz", "interop"];

/// The longest line of a comment, in characters.
const MAX_COLUMNS: usize = 99;

#[test]
fn comments_end_before_column_100() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&root.join(folder), &mut files);
    }
    assert!(!files.is_empty());
    let mut found = Vec::new();
    for file in files {
        let source = fs::read_to_string(&file).expect("a source can be read");
        let shown = file.strip_prefix(&root).unwrap_or(&file).display();
        found.extend(long_comments(&source).map(|line| format!("{shown}:{line}")));
    }
    assert!(found.is_empty(), "comments of more than {MAX_COLUMNS} columns: {found:#?}");
}

#[test]
fn only_long_comments_are_found() {
    let comment = |len: usize| format!("    //{}", "é".repeat(len - 6));
    let source = format!("{}\n{}\nlet a = 1;{}", comment(99), comment(100), comment(99));
    assert_eq!(long_comments(&source).collect::<Vec<_>>(), [2]);
}

/// The lines with nothing but a comment that is too long, counted from 1.
fn long_comments(source: &str) -> impl Iterator<Item = usize> {
    let is_long =
        |line: &str| line.trim_start().starts_with("//") && MAX_COLUMNS < line.chars().count();
    source.lines().zip(1..).filter(move |(line, _)| is_long(line)).map(|(_, number)| number)
}

/// All source files, but none of a folder that the build made.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources can be read") {
        let path = entry.expect("it has entries").path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("target") | None => {}
            Some(_) if path.is_dir() => sources(&path, files),
            Some(name) if name.ends_with(".rs") => files.push(path),
            Some(_) => {}
        }
    }
}
