//! The committed manual pages and schemas are those that their definitions give.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, in its helpers too")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect()
}

#[test]
fn manual_pages_and_schemas_are_fresh() {
    let fresh = std::env::temp_dir().join(format!("lanekeeper-generated-{}", std::process::id()));
    let status = Command::new(env!("CARGO_BIN_EXE_lanekeeper"))
        .args(["--quiet", "generate", "--man"])
        .arg(fresh.join("man"))
        .arg("--schema")
        .arg(fresh.join("schema"))
        .env_clear()
        .status()
        .unwrap();
    assert!(status.success());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (committed, made) in [("man", "man"), ("docs/schema", "schema")] {
        let (committed_files, made_files) = (files(&root.join(committed)), files(&fresh.join(made)));
        let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
        let stale = "is stale: run `lanekeeper generate --man man --schema docs/schema`";
        assert_eq!(names(&committed_files), names(&made_files), "{committed}/ {stale}");
        for (name, text) in &committed_files {
            assert!(*text == made_files[name], "{committed}/{name} {stale}");
        }
    }
    std::fs::remove_dir_all(fresh).unwrap();
}
