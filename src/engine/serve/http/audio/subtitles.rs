//! SubRip and WebVTT, as strict parsers take them.

use crate::engine::models::Segment;

/// The transcript as SubRip.
pub(super) fn srt(segments: &[Segment]) -> String {
    let cue = |(i, (start, end, text)): (usize, (u64, u64, String))| {
        format!("{}\n{} --> {}\n{text}\n\n", i + 1, stamp(start, ','), stamp(end, ','))
    };
    cues(segments, false).enumerate().map(cue).collect()
}

/// The transcript as WebVTT.
pub(super) fn vtt(segments: &[Segment]) -> String {
    let cue = |(start, end, text)| format!("{} --> {}\n{text}\n\n", stamp(start, '.'), stamp(end, '.'));
    format!("WEBVTT\n\n{}", cues(segments, true).map(cue).collect::<String>())
}

/// Start and end in milliseconds, and text that cannot be mistaken for a cue's frame. Empty segments make no cue.
fn cues(segments: &[Segment], escape: bool) -> impl Iterator<Item = (u64, u64, String)> {
    segments.iter().filter_map(move |segment| {
        // A blank line ends a cue and `-->` starts one: neither may stand in its text.
        let text = segment.text.split_whitespace().collect::<Vec<_>>().join(" ").replace("-->", "->");
        let text = if escape { text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;") } else { text };
        let start = millis(segment.start);
        // A cue must not end before it starts, and players drop those of no length.
        (!text.is_empty()).then(|| (start, millis(segment.end).max(start + 1), text))
    })
}

fn millis(seconds: f64) -> u64 {
    // A cast of a float saturates: negative and NaN become 0.
    (seconds * 1000.0).round() as u64
}

fn stamp(millis: u64, point: char) -> String {
    let (seconds, ms) = (millis / 1000, millis % 1000);
    format!("{:02}:{:02}:{:02}{point}{ms:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::super::shape::tests::segment;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn srt_is_numbered_and_timed() {
        let segments = [segment(0, 0.0, 1.5, " Hello there."), segment(1, 3661.0, 3662.0004, " Bye.")];
        assert_eq!(
            srt(&segments),
            "1\n00:00:00,000 --> 00:00:01,500\nHello there.\n\n2\n01:01:01,000 --> 01:01:02,000\nBye.\n\n"
        );
    }

    #[test]
    fn vtt_has_its_header_and_escapes() {
        assert_eq!(vtt(&[]), "WEBVTT\n\n");
        let text = vtt(&[segment(0, 1.0, 2.0, " a < b --> c & d\n\n e")]);
        assert_eq!(text, "WEBVTT\n\n00:00:01.000 --> 00:00:02.000\na &lt; b -&gt; c &amp; d e\n\n");
    }

    proptest! {
        #[test]
        fn any_text_stays_inside_its_cue(text in "[ -~\n\r]{0,40}", start in -1.0f64..1e5, length in -1.0f64..40.0) {
            let out = srt(&[segment(0, start, start + length, &text)]);
            if !out.is_empty() {
                let lines: Vec<&str> = out.split('\n').collect();
                prop_assert_eq!(lines.len(), 5);
                let (from, to) = lines[1].split_once(" --> ").unwrap();
                prop_assert!(from < to, "{} {}", from, to);
                prop_assert!(!lines[2].contains("-->"));
            }
        }
    }
}
