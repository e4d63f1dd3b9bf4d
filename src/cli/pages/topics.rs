//! Pages that are not about one command: the profile format and the exit codes.

use super::{DATE, MANUAL, Page, source};
use crate::control::ExitCode;
use crate::profile::keys::{BOX, Key, Kind, MODEL, Takes};
use crate::profile::workload_keys::{CLIENTS, LOAD, SETTINGS};
use crate::profile::{ALIASES, Family, RESERVED, variable};
use crate::tui::key_docs;
use clap_mangen::roff::{Roff, bold, italic, roman};

pub fn pages() -> Vec<Page> {
    vec![profile(), load(), knobs(), super::conditions::page(), exit_codes(), keys_of_console()]
}

/// A page's head and NAME.
pub(super) fn begin(name: &str, section: u8, about: &str) -> Roff {
    let mut roff = Roff::default();
    roff.control("TH", [name.to_uppercase().as_str(), &section.to_string(), DATE, &source(), MANUAL]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - {about}"))]);
    roff
}

pub(super) fn end(name: &str, section: u8, roff: &Roff) -> Page {
    Page { name: name.to_string(), section, roff: super::tidy(&roff.to_roff()) }
}

fn exit_codes() -> Page {
    let name = "lanekeeper-exit-codes";
    let mut roff = begin(name, 7, "how lanekeeper commands end");
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman("Every command ends with one of these codes. Scripts may rely on them.")]);
    for code in ExitCode::ALL {
        roff.control("TP", []);
        roff.text([bold(code.code().to_string())]);
        roff.text([roman(sentence(code.meaning()))]);
    }
    roff.control("PP", []);
    roff.text([roman(
        "When the reader of the output goes away, as in a pipe to head, a command ends with 0 and says nothing. \
         With several files or requests, the first failure decides the code; the others are still worked on.",
    )]);
    see_also(&mut roff, &["lanekeeper"]);
    end(name, 7, &roff)
}

fn keys_of_console() -> Page {
    let name = "lanekeeper-keys";
    let mut roff = begin(name, 7, "the keys of the console");
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman("These keys work in lanekeeper top. In the console, ? lists those that work where you are.")]);
    for key in key_docs() {
        roff.control("TP", []);
        roff.text([bold(&key.keys), roman(format!(" ({})", key.places))]);
        let named = key.name.map(|name| format!(" (action {name})")).unwrap_or_default();
        roff.text([roman(format!("{}{named}", key.doc))]);
    }
    roff.control("SH", ["OTHER KEYS"]);
    roff.text([
        roman("The profile's "),
        bold("console.keys"),
        roman(" gives actions other keys: "),
        bold("freeze=F, down=n / Down, first=g g"),
        roman(". Chords are parted by \" / \", the keys of one by blanks. The ways out (Esc, C-c) stay as they are."),
    ]);
    see_also(&mut roff, &["lanekeeper-top"]);
    end(name, 7, &roff)
}

fn knobs() -> Page {
    let name = "lanekeeper-knobs";
    let mut roff = begin(name, 7, "the settings of a running engine");
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "A knob is a key of a profile (lanekeeper-profile(5)) in a running engine; those of a model stand under models.ID. \
         What lanekeeper set gives it wins over the command line, the environment, the profile and the built-in default, \
         in this order; lanekeeper unset lets it go again. lanekeeper get NAME shows every layer.",
    )]);
    roff.control("PP", []);
    roff.text([roman(
        "A change is checked as a whole, by the rules that hold at a start and by what the engine was allocated for, and \
         is made as a whole or not at all. It is written to the journal and flushed to the disk before it is answered. \
         Batches and iterations that run are never changed: it holds from the next one on, and a lower cap lets running \
         work end.",
    )]);
    roff.control("PP", []);
    roff.text([roman(
        "With --ttl the engine undoes a change by itself, whatever becomes of the client. With --persist it comes back \
         whenever the engine is started again (serve --fresh forgets that). A knob that takes a restart can only be \
         set with --persist, and holds from the next start on.",
    )]);
    for (title, table, prefix) in [("KNOBS OF THE ENGINE", BOX, ""), ("KNOBS OF A MODEL", MODEL, "models.ID.")] {
        roff.control("SH", [title]);
        for key in table.iter().filter(|key| key.settable() && !matches!(key.kind, Kind::Models)) {
            knob(&mut roff, key, prefix);
        }
    }
    roff.control("SH", ["FILES"]);
    roff.control("TP", []);
    roff.text([bold("$XDG_STATE_HOME/lanekeeper/NAME/journal.jsonl")]);
    roff.text([roman(
        "The journal of the engine NAME, a JSON line per change; older files are numbered. Without XDG_STATE_HOME it is \
         under ~/.local/state.",
    )]);
    see_also(&mut roff, &["lanekeeper-knobs", "lanekeeper-get", "lanekeeper-set", "lanekeeper-journal"]);
    end(name, 7, &roff)
}

fn knob(roff: &mut Roff, key: &Key, prefix: &str) {
    roff.control("TP", []);
    let takes = match key.takes {
        Takes::Live => "live",
        Takes::Restart => "restart",
    };
    let default =
        key.default.filter(|text| !text.is_empty()).map(|text| format!(", default {text}")).unwrap_or_default();
    roff.text([bold(format!("{prefix}{}", key.path)), roman(format!(" ({takes}{default})"))]);
    roff.text([roman(format!("{}{}", key.doc, only(key)))]);
}

fn profile() -> Page {
    let name = "lanekeeper-profile";
    let mut roff = begin(name, 5, "what a box serves and how");
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([
        roman("A profile is a YAML file. A "),
        italic("box profile"),
        roman(" says what one machine serves; a "),
        italic("model profile"),
        roman(" says where a model comes from and how it is run. A box lists models by name, by path, or in place."),
    ]);
    roff.control("PP", []);
    roff.text([roman(
        "Values are layered, and the later layer wins: built-in default, extended profile, profile, environment \
         variable, command line (--set KEY=VALUE). lanekeeper profile show NAME tells for every value which layer it \
         came from. An unknown key, variable or value is refused with its place and the nearest known name.",
    )]);
    roff.control("PP", []);
    roff.text([roman(
        "A name is looked for in the user's folder ($XDG_CONFIG_HOME/lanekeeper/profiles, with the folders boxes and \
         models) and then among the shipped profiles. Anything with a slash, or that ends in .yaml, is a path.",
    )]);
    roff.control("SH", ["EXAMPLE"]);
    roff.control("nf", []);
    roff.text([roman(
        "name: desk\nmodels:\n  - whisper-tiny-en\n  - extends: smollm2-135m\n    id: chat\n    \
         generation:\n      slots: 2\nlisten:\n  http: 127.0.0.1:8741\nlimits:\n  audio_bytes: 64Mi",
    )]);
    roff.control("fi", []);
    roff.control("SH", ["BOX KEYS"]);
    keys(&mut roff, BOX);
    roff.control("SH", ["MODEL KEYS"]);
    roff.text([roman("In a box, from the environment and on the command line these stand under models.ID.")]);
    keys(&mut roff, MODEL);
    roff.control("SH", ["ENVIRONMENT"]);
    roff.text([
        roman(
            "Each key that may be set from outside has a variable: its path in capitals, with the prefix LANEKEEPER_. ",
        ),
        roman(format!("For example {} sets listen.http, and ", variable("listen.http"))),
        roman(format!("{} sets wait_ms of the model minilm-l6.", variable("models.minilm-l6.wait_ms"))),
    ]);
    roff.control("PP", []);
    roff.text([roman(format!("These variables are not keys of a profile: {}.", RESERVED.join(", ")))]);
    roff.control("PP", []);
    roff.text([roman("Names of another system that are read as aliases, for every model that batches:")]);
    for (alias, key) in ALIASES {
        roff.control("TP", []);
        roff.text([bold(*alias)]);
        roff.text([roman(*key)]);
    }
    see_also(&mut roff, &["lanekeeper", "lanekeeper-serve", "lanekeeper-profile"]);
    end(name, 5, &roff)
}

fn load() -> Page {
    let name = "lanekeeper-load";
    let mut roff = begin(name, 5, "what the simulator is to simulate");
    roff.control("SH", ["DESCRIPTION"]);
    roff.text([roman(
        "A load is a YAML file for lanekeeper simulate: who sends requests, how long the engine takes for a batch, and the \
         settings of the scheduler to try side by side. A name is looked for in the user's folder \
         ($XDG_CONFIG_HOME/lanekeeper/profiles/loads) and then among the shipped loads; anything with a slash, or that \
         ends in .yaml, is a path. The command line (--set, --vary, --clients) wins over the file.",
    )]);
    roff.control("PP", []);
    roff.text([roman(
        "A number that is drawn for each request (length, think_s) is written as 15 (always), 5..15 (any in the range \
         alike), lognormal MEDIAN SIGMA, exponential MEAN, or 3, 5, 30 (one of these alike).",
    )]);
    roff.control("PP", []);
    roff.text([roman(
        "A batch takes its lane's overhead, its item time for each item, and its cost at the lane's rate. The engine runs \
         one batch at a time; depth says how many are taken out of the queue ahead.",
    )]);
    roff.control("SH", ["EXAMPLE"]);
    roff.control("nf", []);
    roff.text([roman(
        "duration_s: 30m\nclients:\n  - name: clips\n    clients: 16\n    length: 5..15\n  - name: meetings\n    \
         rate: 0.01\n    length: lognormal 1200 0.6\nservice:\n  clips:\n    rate: 100\n    overhead_ms: 60\n\
         max_batch_tokens: 720_000\nsettings:\n  - name: one at a time\n    depth: 1\n  - name: two ahead\n    \
         depth: 2",
    )]);
    roff.control("fi", []);
    roff.control("SH", ["LOAD KEYS"]);
    keys(&mut roff, &LOAD);
    roff.control("SH", ["KEYS OF A CLASS OF CLIENTS"]);
    keys(&mut roff, CLIENTS);
    roff.control("SH", ["KEYS OF A SETTING"]);
    roff.text([roman("What a setting says wins over the load's key of the same name.")]);
    keys(&mut roff, &SETTINGS[..1]);
    see_also(&mut roff, &["lanekeeper", "lanekeeper-simulate", "lanekeeper-record"]);
    end(name, 5, &roff)
}

fn keys(roff: &mut Roff, table: &[Key]) {
    for key in table {
        roff.control("TP", []);
        let default = match key.default {
            Some("") | None => String::new(),
            Some(default) => format!(" (default {default})"),
        };
        roff.text([bold(key.path), roman(default)]);
        roff.text([roman(format!("{}{}", key.doc, only(key)))]);
    }
}

/// Which models a key is for, where it is not for all.
fn only(key: &Key) -> String {
    match key.only {
        [] => String::new(),
        families => {
            let names: Vec<&str> = families.iter().map(|f: &Family| f.name()).collect();
            format!(" Only for {}.", names.join(" and "))
        }
    }
}

pub(super) fn see_also(roff: &mut Roff, names: &[&str]) {
    roff.control("SH", ["SEE ALSO"]);
    for (i, name) in names.iter().enumerate() {
        let comma = if i + 1 < names.len() { "(1)," } else { "(1)" };
        roff.text([bold(*name), roman(comma)]);
    }
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), chars.as_str()),
        None => String::new(),
    }
}
