//! The whole way from files, variables and flags to values and errors.

use super::*;
use crate::control::Op;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("lanekeeper-profile-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The messages of a refused model file, without the folder.
fn refused(text: &str) -> Vec<String> {
    let folder = Folder::new();
    let path = folder.write("m.yaml", text);
    let errors = load_model(&path, &Env::empty(), &[]).unwrap_err();
    errors.0.iter().map(|error| error.to_string().replace(&format!("{}/", folder.0.display()), "")).collect()
}

const BERT: &str = "\
id: m
family: bert
files:
  weights: {sources: ['file:w/model.safetensors'], sha256: unpinned}
  tokenizer: {sources: ['file:/t.json'], sha256: unpinned}
  config: {sources: ['file:c.json'], sha256: unpinned}
";

#[test]
fn every_shipped_profile_is_sound() {
    for (kind, name, _) in SHIPPED {
        let report = check(name, &Env::empty()).unwrap_or_else(|errors| panic!("{name}:\n{errors}"));
        assert_eq!((report.kind, report.name.as_str()), (*kind, *name));
    }
    assert!(list(&Env::empty()).iter().all(|listing| listing.problem.is_none() && !listing.description.is_empty()));
}

#[test]
fn every_profile_of_the_folder_is_shipped() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    for (kind, folder) in [(ProfileKind::Box, "boxes"), (ProfileKind::Model, "models")] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let name = entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
            assert!(SHIPPED.iter().any(|(k, n, _)| *k == kind && *n == name), "{folder}/{name} is not compiled in");
        }
    }
}

#[test]
fn the_demo_box_is_what_it_says() {
    let demo = load_box("demo", &Env::empty(), &[]).unwrap();
    let ids: Vec<_> = demo.value.models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["whisper-tiny-en", "smollm2-135m", "minilm-l6"]);
    assert_eq!(demo.value.listen.http.to_string(), "127.0.0.1:8741");
    assert_eq!(demo.value.name, "demo");
    assert_eq!(demo.value.models[2].max_input_tokens, Some(256));
    assert_eq!(demo.value.models[2].ops, [Op::Embed, Op::Rerank]);
    assert!(demo.value.models[1].generation.is_some());
    let origin = demo.origin("models.minilm-l6.wait_ms").unwrap();
    assert!(origin.to_string().starts_with("profiles/models/minilm-l6.yaml:"), "{origin}");
    assert_eq!(demo.origin("limits.json_bytes"), Some(&Origin::BuiltIn));
}

#[test]
fn later_layers_win_and_say_so() {
    let folder = Folder::new();
    let path = folder.write("b.yaml", "extends: demo\nmodels:\n  - {extends: minilm-l6, wait_ms: 7, depth: 3}\n");
    let env =
        Env::from_pairs([("LANEKEEPER_MODELS_MINILM_L6_WAIT_MS", "8"), ("LANEKEEPER_LISTEN_HTTP", "127.0.0.1:1")]);
    let set = ["models.minilm-l6.wait_ms=9".to_string()];
    let plain = load_box(&path, &Env::empty(), &[]).unwrap();
    assert_eq!((plain.value.models[0].wait_ms, plain.value.models[0].depth), (7.0, Some(3)));
    assert_eq!(plain.value.name, "demo");
    let with_env = load_box(&path, &env, &[]).unwrap();
    assert_eq!(with_env.value.models[0].wait_ms, 8.0);
    assert_eq!(with_env.value.listen.http.port(), 1);
    assert_eq!(with_env.origin("listen.http").unwrap().to_string(), "environment LANEKEEPER_LISTEN_HTTP");
    let with_flag = load_box(&path, &env, &set).unwrap();
    assert_eq!(with_flag.value.models[0].wait_ms, 9.0);
    assert_eq!(with_flag.origin("models.minilm-l6.wait_ms").unwrap().to_string(), "--set models.minilm-l6.wait_ms=9");
    let origin = with_flag.origin("models.minilm-l6.depth").unwrap().to_string();
    assert!(origin.ends_with("b.yaml:3:45"), "{origin}");
}

#[test]
fn published_aliases_are_weaker_than_our_own_names() {
    let env = Env::from_pairs([
        ("SIE_BATCHER_MAX_BATCH_WAIT_MS", "30"),
        ("SIE_BATCHER_MAX_BATCH_COST", "9000"),
        ("SIE_BATCHER_COALESCE_RATIO", "0.4"),
        ("SIE_BATCHER_SOMETHING", "1"),
        ("LANEKEEPER_MODELS_MINILM_L6_WAIT_MS", "8"),
    ]);
    let demo = load_box("demo", &env, &[]).unwrap();
    assert_eq!(demo.value.models[0].wait_ms, 30.0);
    assert_eq!(demo.value.models[0].max_batch_tokens, Some(9000));
    assert_eq!(demo.value.models[2].wait_ms, 8.0);
    assert!(matches!(demo.origin("models.whisper-tiny-en.wait_ms"), Some(Origin::Env { alias: true, .. })));
    assert!(demo.warnings.iter().any(|warning| warning.contains("SIE_BATCHER_SOMETHING")));
}

#[test]
fn a_bad_variable_names_itself() {
    let env = Env::from_pairs([("LANEKEEPER_CPU_THREADS", "many"), ("SIE_BATCHER_COALESCE_MS", "x")]);
    let errors = load_box("demo", &env, &[]).unwrap_err().to_string();
    assert!(errors.contains("environment variable LANEKEEPER_CPU_THREADS: `cpu.threads`: `many` is not"), "{errors}");
    assert!(errors.contains("environment variable SIE_BATCHER_COALESCE_MS:"), "{errors}");
    let env = Env::from_pairs([("LANEKEEPER_MODELS_MINILM_L6_WAIT", "1")]);
    let errors = load_box("demo", &env, &[]).unwrap_err().to_string();
    assert!(errors.contains("did you mean `LANEKEEPER_MODELS_MINILM_L6_WAIT_MS`?"), "{errors}");
}

#[test]
fn the_model_list_can_be_set_from_outside() {
    let env = Env::from_pairs([("LANEKEEPER_MODELS", "minilm-l6"), ("LANEKEEPER_MODELS_MINILM_L6_DEPTH", "1")]);
    let demo = load_box("demo", &env, &[]).unwrap();
    assert_eq!(demo.value.models.len(), 1);
    let demo = load_box("demo", &Env::empty(), &["models=smollm2-135m, minilm-l6".to_string()]).unwrap();
    assert_eq!(demo.value.models.len(), 2);
    let errors = load_box("demo", &Env::empty(), &["models=minilm".to_string()]).unwrap_err().to_string();
    assert_eq!(errors, "--set models=minilm: there is no model profile `minilm` (did you mean `minilm-l6`?)");
}

#[test]
fn unknown_keys_stand_with_line_column_and_the_nearest_name() {
    let found = refused(&format!("{BERT}wait: 3\nmax_batch_token: 5\nfile: 1\nfoo: 1\n"));
    assert_eq!(found[1], "m.yaml:8:1: unknown key `max_batch_token` (did you mean `max_batch_tokens`?)");
    assert_eq!(found[2], "m.yaml:9:1: unknown key `file` (did you mean `files`?)");
    assert!(found[3].starts_with("m.yaml:10:1: unknown key `foo` (known here: extends, id, family"), "{}", found[3]);
    let found = refused("id: m\nfamily: bert\nfiles:\n  weights: {source: []}\n");
    assert_eq!(found[0], "m.yaml:4:13: unknown key `files.weights.source` (did you mean `sources`?)");
}

#[test]
fn bad_values_stand_with_line_and_column() {
    let found = refused(&format!("{BERT}depth: many\nwait_ms: -1\ndtype: f8\nops: [embed, sing]\ndevice: gpu\n"));
    assert!(found.contains(&"m.yaml:10:14: `ops`: `sing` is none of transcribe, embed, rerank, generate".to_string()));
    assert!(found.iter().any(|e| e.starts_with("m.yaml:7:8: `depth`: `many` is not a whole number")), "{found:?}");
    assert!(found.iter().any(|e| e.starts_with("m.yaml:8:10: `wait_ms`: -1 is outside 0..=60000 ms")), "{found:?}");
    assert!(found.iter().any(|e| e.starts_with("m.yaml:9:8: `dtype`: `f8` is none of auto")), "{found:?}");
    assert!(found.iter().any(|e| e.starts_with("m.yaml:11:9: `device`: `gpu` is none of auto")), "{found:?}");
}

#[test]
fn values_are_checked_against_each_other() {
    let found = refused(&format!("{BERT}max_batch_tokens: 64\nmax_input_tokens: 256\n"));
    assert_eq!(
        found,
        ["m.yaml:7:19: `max_input_tokens` is 256 but `max_batch_tokens` is 64: the longest text would fit no batch"]
    );
    let found = refused(&format!("{BERT}ops: [generate]\nlanguage: en\n"));
    assert_eq!(found[0], "m.yaml:8:11: `language` means nothing for family bert; it is for whisper");
    assert_eq!(found[1], "m.yaml:7:6: `ops`: family bert cannot generate; it can embed and rerank");
    let found = refused(
        "id: m\nfamily: llama\nfiles: {weights: {sources: ['file:x'], sha256: unpinned}}\ngeneration: {prefill_chunk: 4096}\n",
    );
    assert_eq!(
        found,
        [
            "m.yaml:4:29: `generation.prefill_chunk` is 4096 but `generation.iteration_tokens` is 2048: a chunk would fit no pass"
        ]
    );
}

#[test]
fn what_is_missing_is_named() {
    let found = refused("family: bert\nfiles: {weights: {sources: ['file:x']}}\n");
    assert_eq!(found, ["m.yaml:1:1: `id` is required: the name that requests ask for"]);
    let found = refused("id: m\nfamily: bert\nfiles: {weights: {sources: ['file:x']}}\n");
    assert!(found[0].contains("`files.weights.sha256` is required"), "{found:?}");
    assert!(found.iter().any(|e| e.contains("`files.tokenizer.sources` is required")), "{found:?}");
}

#[test]
fn relative_paths_start_from_the_profile() {
    let folder = Folder::new();
    let path = folder.write("models/m.yaml", BERT);
    let model = load_model(&path, &Env::empty(), &[]).unwrap().value;
    let weights = &model.files[&FileRole::Weights].sources[0][0];
    assert_eq!(*weights, Source::Local { path: folder.0.join("models/w/model.safetensors") });
    let box_path = folder.write("b.yaml", "models: [models/m.yaml]\nkeys: {file: keys.txt}\n");
    let loaded = load_box(&box_path, &Env::empty(), &[]).unwrap().value;
    assert_eq!(loaded.models[0], model);
    assert_eq!(loaded.keys_file, Some(folder.0.join("keys.txt")));
    assert_eq!(loaded.name, "b");
}

#[test]
fn a_draft_head_is_none_shipped_or_a_file_beside_the_profile() {
    let folder = Folder::new();
    let head = |value: &str| {
        let text = "id: m\nfamily: llama\nfiles: {weights: {sources: ['file:x'], sha256: unpinned}}\n";
        let path = folder.write("m.yaml", &format!("{text}{value}"));
        load_model(&path, &Env::empty(), &[]).unwrap().value.draft_head
    };
    assert_eq!(head(""), None);
    assert_eq!(head("speculation: {mtp_head: none}\n"), None);
    assert_eq!(head("speculation: {mtp_head: shipped}\n"), Some(DraftHead::Shipped));
    let beside = Some(DraftHead::File(folder.0.join("heads/m.gguf")));
    assert_eq!(head("speculation: {mtp_head: heads/m.gguf}\n"), beside);
    // Beside a draft model it is one too many.
    let text = "id: m\nfamily: llama\nfiles: {weights: {sources: ['file:x'], sha256: unpinned}}\nspeculation:\n  \
                draft_model: smollm2-135m\n  mtp_head: ";
    let errors = refused(&format!("{text}shipped\n"));
    assert_eq!(errors.len(), 1, "{errors:?}");
    let both = "`speculation.mtp_head` and `speculation.draft_model` are both set, but one of them drafts";
    assert!(errors[0].starts_with("m.yaml:6:") && errors[0].contains(both), "{errors:?}");
    let alone = folder.write("n.yaml", &format!("{text}none\n"));
    assert!(load_model(&alone, &Env::empty(), &[]).unwrap().value.draft.is_some());
}

#[test]
fn a_users_profile_goes_before_the_shipped_one_and_may_extend_it() {
    let folder = Folder::new();
    folder.write("lanekeeper/profiles/models/minilm-l6.yaml", "extends: minilm-l6\ndepth: 4\n");
    folder.write("lanekeeper/profiles/boxes/mine.yaml", "models: [minilm-l6]\ndescription: my own\n");
    let home = folder.0.to_string_lossy().into_owned();
    let env = Env::from_pairs([("XDG_CONFIG_HOME", home.as_str())]);
    assert_eq!(load_model("minilm-l6", &env, &[]).unwrap().value.depth, Some(4));
    assert_eq!(load_box("mine", &env, &[]).unwrap().value.models[0].depth, Some(4));
    let listing = list(&env);
    let mine = listing.iter().find(|listing| listing.name == "mine").unwrap();
    assert_eq!((mine.shipped, mine.description.as_str()), (false, "my own"));
    assert!(!listing.iter().find(|listing| listing.name == "minilm-l6").unwrap().shipped);
}

#[test]
fn circles_and_unknown_names_are_refused() {
    let folder = Folder::new();
    let a = folder.write("a.yaml", "extends: ./b.yaml\n");
    folder.write("b.yaml", "extends: ./a.yaml\n");
    let errors = load_model(&a, &Env::empty(), &[]).unwrap_err().to_string();
    assert!(errors.contains("circle"), "{errors}");
    let errors = load_box("demos", &Env::empty(), &[]).unwrap_err().to_string();
    assert_eq!(errors, "there is no box profile `demos` (did you mean `demo`?)");
    let errors = load_box("minilm-l6", &Env::empty(), &[]).unwrap_err().to_string();
    assert!(errors.contains("is a model profile"), "{errors}");
}

#[test]
fn two_models_of_one_name_are_refused() {
    let folder = Folder::new();
    let path = folder.write("b.yaml", "models:\n  - minilm-l6\n  - {extends: minilm-l6, depth: 1}\n");
    let errors = load_box(&path, &Env::empty(), &[]).unwrap_err().to_string();
    assert!(errors.contains("b.yaml:3:5: models `minilm-l6` (line 2) and `minilm-l6`"), "{errors}");
    let path = folder.write("b.yaml", "models:\n  - minilm-l6\n  - {extends: minilm-l6, id: second}\n");
    assert_eq!(load_box(&path, &Env::empty(), &[]).unwrap().value.models.len(), 2);
}

#[test]
fn yaml_beyond_the_plain_core_is_refused() {
    assert!(refused("id: &a m\n")[0].contains("m.yaml:1:"), "anchors");
    assert!(refused("id: m\nid: n\n")[0].starts_with("m.yaml:2:1: `id` is given twice"));
    assert!(refused("id: m\n---\nid: n\n")[0].contains("one document"));
    assert!(refused("- a\n")[0].contains("not a list"));
    assert!(refused("id: !x m\n")[0].contains("tags"));
    assert!(refused("id: [\n")[0].starts_with("m.yaml:"));
    assert!(refused(&format!("id: {}", "[".repeat(5000)))[0].starts_with("m.yaml:1:"));
    assert!(refused("depth: [1]\n")[0].contains("takes a single value, not a list"));
    assert!(refused("files: 3\n")[0].contains("`files` is a mapping, not a single value"));
}

#[test]
fn listening_beyond_loopback_without_keys_is_warned_of() {
    let set = ["listen.http=0.0.0.0:80".to_string()];
    let demo = load_box("demo", &Env::empty(), &set).unwrap();
    assert!(demo.value.open_without_keys());
    assert!(demo.warnings.iter().any(|warning| warning.contains("0.0.0.0:80")), "{:?}", demo.warnings);
}

#[test]
fn unknown_settings_are_refused_with_the_nearest() {
    let refused = |set: &str| load_box("demo", &Env::empty(), &[set.to_string()]).unwrap_err().to_string();
    assert!(refused("listen.htp=1").contains("did you mean `listen.http`?"));
    assert!(refused("models.minilm-l6.depht=1").contains("did you mean `depth`?"));
    assert!(refused("minilm-l6.depth=1").contains("did you mean `models.minilm-l6.depth`?"));
    assert!(refused("models.other.depth=1").contains("the models served are whisper-tiny-en"));
    assert!(refused("nonsense").contains("not KEY=VALUE"));
    let set = ["depth=5".to_string()];
    assert_eq!(load_model("minilm-l6", &Env::empty(), &set).unwrap().value.depth, Some(5));
}

#[test]
fn kinds_are_told_by_their_keys() {
    let folder = Folder::new();
    let kind = |text: &str| kind_of(&folder.write("x.yaml", text), &Env::empty());
    assert_eq!(kind("models: [minilm-l6]\n").unwrap(), ProfileKind::Box);
    assert_eq!(kind(BERT).unwrap(), ProfileKind::Model);
    assert_eq!(kind("extends: demo\n").unwrap(), ProfileKind::Box);
    assert!(kind("x: 1\n").is_err());
}

#[test]
fn the_schema_knows_every_key() {
    let model = schema(ProfileKind::Model);
    assert_eq!(model["properties"]["files"]["properties"]["weights"]["properties"]["sha256"]["type"][0], "string");
    assert_eq!(model["additionalProperties"], false);
    assert_eq!(model["properties"]["wait_ms"]["default"], 15);
    let schema = schema(ProfileKind::Box);
    assert_eq!(schema["properties"]["models"]["items"]["anyOf"][1]["$ref"], "#/$defs/model");
    assert_eq!(schema["$defs"]["model"]["properties"]["id"]["type"][0], "string");
}
