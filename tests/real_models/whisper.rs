//! Whisper tiny.en on human speech against faster-whisper (`scripts/peers.d/whisper.py` made the reference), on long
//! audio, and on sound without words.

use lanekeeper::engine::audio::{DecodeLimits, Pcm, decode};
use lanekeeper::engine::models::{
    ModelBack, ModelFront, SpeechFront, TranscribeOptions, TranscribeSession, Transcriber, load,
};
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
struct Reference {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    file: String,
    seconds: f64,
    truth: String,
    text: String,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("../reference/whisper.json")).expect("the committed reference parses")
}

fn tiny_en() -> (SpeechFront, Box<dyn Transcriber>) {
    let (profile, files) = crate::model("whisper-tiny-en");
    let loaded = load(&profile, &files).expect("the pinned files load");
    match (loaded.front, loaded.back) {
        (ModelFront::Speech(front), ModelBack::Speech(back)) => (front, back),
        _ => panic!("whisper-tiny-en is not a speech model"),
    }
}

/// A file of Debian's pocketsphinx-testdata.
fn speech(name: &str) -> Pcm {
    let folder = std::env::var("LANEKEEPER_TEST_SPEECH").unwrap_or("/usr/share/pocketsphinx/test/data".to_string());
    let path = Path::new(&folder).join(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| {
        panic!("{}: {e}; install pocketsphinx-testdata or set LANEKEEPER_TEST_SPEECH", path.display())
    });
    decode(&bytes, DecodeLimits::default()).expect("a sound file decodes")
}

fn pcm(samples: Vec<f32>) -> Pcm {
    Pcm { samples: samples.into(), truncated: false }
}

/// Runs sessions to their end, all of them in every step.
fn run(model: &mut dyn Transcriber, mut sessions: Vec<TranscribeSession>) -> Vec<TranscribeSession> {
    for _ in 0..100 {
        let mut open: Vec<&mut TranscribeSession> = sessions.iter_mut().filter(|s| !s.done).collect();
        if open.is_empty() {
            return sessions;
        }
        for result in model.step(&mut open) {
            result.expect("a window is decoded");
        }
    }
    panic!("sessions do not end");
}

fn transcribe(model: &mut dyn Transcriber, audio: Pcm) -> TranscribeSession {
    run(model, vec![TranscribeSession::new(audio, TranscribeOptions::default())])
        .pop()
        .expect("one session in, one out")
}

fn text(s: &TranscribeSession) -> String {
    s.segments.iter().map(|g| g.text.as_str()).collect()
}

/// Words as they are spoken: no case, no punctuation, small numbers spelt out.
fn words(text: &str) -> Vec<String> {
    const NUMBERS: [&str; 11] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    text.to_lowercase()
        .replace("mr.", "mister")
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|w| !w.is_empty())
        .map(|w| w.parse::<usize>().ok().and_then(|n| NUMBERS.get(n)).map_or(w.to_string(), |n| (*n).to_string()))
        .collect()
}

/// Word errors: substitutions, insertions and deletions.
fn errors(truth: &str, heard: &str) -> usize {
    let (a, b) = (words(truth), words(heard));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let next = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}

#[test]
fn human_speech_is_heard_as_well_as_by_faster_whisper() {
    let (front, mut model) = tiny_en();
    assert_eq!((front.multilingual, front.languages.as_slice()), (false, &["en".to_string()][..]));
    let (mut ours, mut peers, mut all) = (0, 0, 0);
    for row in reference().rows {
        let audio = speech(&row.file);
        assert!((audio.seconds() - row.seconds).abs() < 0.01, "{}", row.file);
        let session = transcribe(model.as_mut(), audio);
        let heard = text(&session);
        let (our, peer) = (errors(&row.truth, &heard), errors(&row.truth, &row.text));
        println!("{}: {our} errors (peer {peer}): {heard}", row.file);
        assert!(session.segments.iter().all(|g| g.start < g.end && g.end <= row.seconds + 0.01));
        ours += our;
        peers += peer;
        all += words(&row.truth).len();
    }
    let rate = |n: usize| 100.0 * n as f64 / all as f64;
    println!("word error rate {:.1} %, faster-whisper {:.1} %, {all} words", rate(ours), rate(peers));
    assert!(rate(ours) <= rate(peers) + 2.0);
}

#[test]
fn a_batch_hears_what_each_hears_alone() {
    let (_, mut model) = tiny_en();
    let rows = reference().rows;
    let session = |row: &Row| TranscribeSession::new(speech(&row.file), TranscribeOptions::default());
    let together = run(model.as_mut(), rows[..5].iter().map(session).collect());
    for (row, s) in rows[..2].iter().zip(&together) {
        let alone = transcribe(model.as_mut(), speech(&row.file));
        assert_eq!(s.segments, alone.segments, "{}", row.file);
    }
}

#[test]
fn silence_and_noise_have_no_words_even_after_speech() {
    let (_, mut model) = tiny_en();
    assert!(
        !transcribe(model.as_mut(), speech("librivox/sense_and_sensibility_01_austen_64kb-0870.wav"))
            .segments
            .is_empty()
    );
    let mut state = 1u32;
    let mut uniform = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    // Uniform noise of ±a has an RMS of a/√3: −40 dBFS is 0.01.
    let noise: Vec<f32> = (0..160_000).map(|_| uniform() * 0.01 * 3f32.sqrt()).collect();
    for (what, samples) in [("zeros", vec![0.0; 160_000]), ("noise", noise)] {
        let s = transcribe(model.as_mut(), pcm(samples));
        assert_eq!(text(&s), "", "{what}");
        assert!(s.done && s.segments.is_empty(), "{what}");
    }
}

#[test]
fn tiny_clips_are_answered() {
    let (_, mut model) = tiny_en();
    let whole = speech("cards/001.wav");
    for n in [1, 800, 6_400] {
        let s = transcribe(model.as_mut(), pcm(whole.samples[4_000..4_000 + n].to_vec()));
        assert!(s.done, "{n} samples");
    }
}

#[derive(Deserialize)]
struct Clip {
    file: String,
    text: String,
}

fn clips() -> Vec<(Clip, Pcm)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("assets/clips");
    let read = |name: &str| std::fs::read(folder.join(name)).expect("the clips are part of the project");
    let clips: Vec<Clip> = serde_json::from_slice(&read("texts.json")).expect("texts.json parses");
    clips
        .into_iter()
        .map(|c| {
            let audio = decode(&read(&c.file), DecodeLimits::default()).expect("a committed clip decodes");
            (c, audio)
        })
        .collect()
}

/// Thirteen sentences with short gaps, over a minute, none aligned to a window.
fn recording() -> (Vec<String>, Pcm) {
    let clips = clips();
    let mut samples = Vec::new();
    let mut texts = Vec::new();
    for (i, (clip, audio)) in clips.iter().take(13).enumerate() {
        samples.extend_from_slice(&audio.samples);
        samples.resize(samples.len() + 12_000 + 700 * i, 0.0);
        texts.push(clip.text.clone());
    }
    (texts, pcm(samples))
}

#[test]
fn a_long_recording_has_every_sentence_once_and_in_order() {
    let (_, mut model) = tiny_en();
    let (texts, audio) = recording();
    assert!(audio.seconds() > 65.0, "{}", audio.seconds());
    let s = transcribe(model.as_mut(), audio);
    let heard = words(&text(&s));
    println!("{}", text(&s));
    // Each sentence is found after the one before it, with at most a third of its words misheard.
    let mut at = 0;
    for sentence in &texts {
        let want = words(sentence);
        let (misses, end) = (at..heard.len())
            .map(|from| {
                let to = (from + want.len()).min(heard.len());
                (errors(sentence, &heard[from..to].join(" ")), to)
            })
            .min()
            .unwrap();
        assert!(misses * 3 <= want.len(), "{sentence:?} is not there after word {at}: {heard:?}");
        at = end - misses.min(2);
    }
    let all = words(&texts.join(" "));
    assert!(heard.len().abs_diff(all.len()) <= all.len() / 20, "{} words for {}", heard.len(), all.len());
    // Segments follow each other.
    assert!(s.segments.windows(2).all(|w| w[0].start < w[1].start && w[0].end <= w[1].start + 0.5));
}

#[test]
fn word_times_rise_within_their_segments() {
    let (_, mut model) = tiny_en();
    let options = TranscribeOptions { word_timestamps: true, ..TranscribeOptions::default() };
    let audio = speech("librivox/sense_and_sensibility_01_austen_64kb-0870.wav");
    let seconds = audio.seconds();
    let s = run(model.as_mut(), vec![TranscribeSession::new(audio, options)]).pop().unwrap();
    let spoken: Vec<_> = s.segments.iter().flat_map(|g| &g.words).collect();
    let joined: String = spoken.iter().map(|w| w.text.as_str()).collect();
    assert_eq!(joined, text(&s));
    assert!(spoken.len() >= 20, "{joined}");
    assert!(spoken.windows(2).all(|w| w[0].start <= w[1].start && w[0].end <= w[1].start + 1e-6), "{spoken:?}");
    assert!(spoken.iter().all(|w| w.start <= w.end && w.end <= seconds + 0.05 && w.probability <= 1.0));
    // "leisure" is spoken about two seconds in.
    let leisure = spoken.iter().find(|w| w.text.contains("leisure")).expect("the word is heard");
    assert!((1.2..3.2).contains(&leisure.start), "{leisure:?}");
}

/// A prompt is text that came before. Behind one word a thousand times the model says that word until its last token, at
/// every temperature: the clip is to be heard all the same, and for little more work.
#[test]
fn a_hopeless_prompt_costs_little_and_does_not_spoil_the_text() {
    let (_, mut model) = tiny_en();
    let clips = clips();
    let session = |(index, prompt): (usize, &String)| {
        let options = TranscribeOptions { prompt: Some(prompt.clone()), ..TranscribeOptions::default() };
        TranscribeSession::new(clips[index].1.clone(), options)
    };
    // The last one, a single word without end, makes the model unsure that anybody speaks: it may be heard as silence.
    let prompts = ["x ".repeat(1_000), "serving ".repeat(300), "An old bridge.".to_string(), "x".repeat(60_000)];
    let mut sessions: Vec<TranscribeSession> = prompts.iter().enumerate().map(session).collect();
    let results = model.step(&mut sessions.iter_mut().collect::<Vec<_>>());
    for (((result, session), (clip, _)), prompt) in results.into_iter().zip(&sessions).zip(&clips).zip(&prompts) {
        let decoded = result.expect("a window is decoded").decoded_tokens;
        println!("{decoded} tokens: {}", text(session));
        assert!(session.done && decoded <= 100, "{decoded} tokens were decoded for {:?}", clip.text);
        let heard = errors(&clip.text, &text(session)) <= 2;
        assert!(heard || !prompt.contains(' '), "{} is not {}", text(session), clip.text);
    }
}

#[test]
fn what_an_english_model_cannot_do_fails_alone() {
    let (_, mut model) = tiny_en();
    let audio = speech("cards/001.wav");
    let ask = |options| TranscribeSession::new(audio.clone(), options);
    let french = TranscribeOptions { language: Some("fr".to_string()), ..TranscribeOptions::default() };
    let translate = TranscribeOptions { translate: true, ..TranscribeOptions::default() };
    let mut sessions = [ask(french), ask(TranscribeOptions::default()), ask(translate)];
    let mut all: Vec<&mut TranscribeSession> = sessions.iter_mut().collect();
    let results = model.step(&mut all);
    assert!(results[0].as_ref().unwrap_err().to_string().contains("fr"));
    assert!(results[1].is_ok());
    assert!(results[2].as_ref().unwrap_err().to_string().contains("translate"));
}
