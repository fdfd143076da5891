//! No module imports in a circle: of two modules at the top of a crate, at most one knows the
//! other. The root of a crate knows them all, so none of them imports what the root defines.
//!
//! Modules below one parent are neighbours, and may know each other. Tests may know everything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The name that the root of a crate has here.
const ROOT: &str = "the root";

/// Which modules each module of a crate imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_module_imports_in_a_circle() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for entry in fs::read_dir(crates).expect("the folder of crates can be read") {
        let folder = entry.expect("it has entries").path();
        let name = folder.file_name().expect("a crate has a name").display();
        let imports = imports(&folder.join("src"));
        assert!(!imports.is_empty(), "no modules found in crate {name}");
        if let Some(circle) = circle(&imports) {
            panic!(
                "modules of crate {name} import each other in a circle: {}; move what they share \
                 into the module that owns it",
                circle.join(" -> ")
            );
        }
    }
}

#[test]
fn a_circle_is_found_and_named() {
    let of = |edges: &[(&str, &str)]| {
        let mut imports = Imports::new();
        for (from, to) in edges {
            imports.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        circle(&imports).map(|circle| circle.join(" "))
    };
    assert_eq!(of(&[("a", "b"), ("b", "c"), ("a", "c")]), None);
    assert_eq!(of(&[("a", "b"), ("b", "c"), ("c", "b")]).as_deref(), Some("b c b"));
    let source = "//! crate::no\nuse crate::{b::C, d};\nfn f() { crate::e::g(); Name(crate::Root) }\n\
                  #[cfg(test)]\nmod tests { use crate::h; }";
    let roots = BTreeMap::from([("Root".to_owned(), "i".to_owned())]);
    let found: Vec<String> = imported(source, &roots).into_iter().collect();
    assert_eq!(found, ["b", "d", "e", "i"]);
    let root = "mod b;\nuse b::C;\npub(crate) struct D;\npub const E: u8 = 0;\nfn f() {}";
    assert_eq!(defined(root), BTreeMap::from(["D", "E", "f"].map(|it| (it.into(), ROOT.into()))));
}

fn imports(src: &Path) -> Imports {
    let root = fs::read_to_string(src.join("lib.rs")).or(fs::read_to_string(src.join("main.rs")));
    let root = root.expect("a crate has lib.rs or main.rs");
    let mut files = Vec::new();
    sources(src, &mut files);
    let module = |file: &Path| {
        let top = file.strip_prefix(src).ok()?.components().next()?;
        Some(top.as_os_str().to_str()?.trim_end_matches(".rs").to_owned())
    };
    let modules: BTreeSet<String> = files.iter().filter_map(|file| module(file)).collect();
    let mut roots = defined(&root);
    roots.extend(re_exports(&root, &modules));
    let mut imports = Imports::new();
    for file in &files {
        let Some(name) = module(file) else { continue };
        if name == "lib" || name == "main" {
            imports.insert(
                ROOT.to_owned(),
                modules.iter().filter(|it| **it != name).cloned().collect(),
            );
            continue;
        }
        let mut source = fs::read_to_string(file).expect("a source can be read");
        if file.parent() == Some(src) {
            source = source.replace("super::", "crate::");
        }
        let found = imported(&source, &roots);
        let is_module = |other: &String| modules.contains(other) || other == ROOT;
        let others = found.into_iter().filter(|other| *other != name && is_module(other));
        imports.entry(name.clone()).or_default().extend(others);
    }
    imports
}

/// All source files but those of tests.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources can be read") {
        let path = entry.expect("it has entries").path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("tests" | "tests.rs") | None => {}
            Some(_) if path.is_dir() => sources(&path, files),
            Some(name) if name.ends_with(".rs") => files.push(path),
            Some(_) => {}
        }
    }
}

/// What the crate's root defines itself.
fn defined(root: &str) -> BTreeMap<String, String> {
    const KEYWORDS: [&str; 7] = ["const", "enum", "fn", "static", "struct", "trait", "type"];
    let mut found = BTreeMap::new();
    for line in code(root).lines().filter(|line| !line.starts_with(' ')) {
        let names = words(line).skip_while(|word| !KEYWORDS.contains(word));
        let names = names.skip_while(|word| KEYWORDS.contains(word));
        found.extend(names.take(1).map(|name| (name.to_owned(), ROOT.to_owned())));
    }
    found
}

/// What the crate's root gives other names to, by its module.
fn re_exports(root: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for statement in code(root).split("use ").skip(1) {
        let mut names = words(statement.split(';').next().unwrap_or_default());
        let Some(module) = names.find(|name| !matches!(*name, "self" | "crate")) else { continue };
        if modules.contains(module) {
            found.extend(names.map(|name| (name.to_owned(), module.to_owned())));
        }
    }
    found
}

/// The modules that a source names after `crate::`.
fn imported(source: &str, roots: &BTreeMap<String, String>) -> BTreeSet<String> {
    let source = code(source);
    let mut found = BTreeSet::new();
    for path in source.split("crate::").skip(1) {
        let names: Vec<&str> = match path.strip_prefix('{') {
            Some(list) => first_names(list),
            None => words(path).take(1).collect(),
        };
        for name in names {
            found.insert(roots.get(name).map_or(name, String::as_str).to_owned());
        }
    }
    found
}

/// The first name of each path of a list in braces.
fn first_names(list: &str) -> Vec<&str> {
    let mut depth = 1;
    let end = list.find(|character| {
        depth += match character {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0
    });
    let mut depth = 0;
    let paths = list[..end.unwrap_or(list.len())].split(|character| {
        depth += match character {
            '{' => 1,
            '}' => -1,
            _ => 0,
        };
        depth == 0 && character == ','
    });
    paths.filter_map(|path| words(path).next()).collect()
}

/// A source without its comments and its tests, which stand at its end.
fn code(source: &str) -> String {
    let mut code = String::new();
    for line in source.lines() {
        if line.starts_with("mod tests {") {
            break;
        }
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}

/// One circle, from a module back to itself.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    imports.keys().find_map(|module| follow(imports, module, &mut Vec::new(), &mut done))
}

fn follow(
    imports: &Imports,
    module: &str,
    path: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(at) = path.iter().position(|known| known == module) {
        let mut circle = path[at..].to_vec();
        circle.push(module.to_owned());
        return Some(circle);
    }
    if !done.insert(module.to_owned()) {
        return None;
    }
    path.push(module.to_owned());
    let found = imports
        .get(module)
        .into_iter()
        .flatten()
        .find_map(|other| follow(imports, other, path, done));
    path.pop();
    found
}
