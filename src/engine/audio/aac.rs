//! Which AAC it is that the decoder does not take.

use symphonia::core::codecs::audio::AudioCodecParameters;

/// Names the kind of AAC from its configuration (ISO 14496-3, 1.6: AudioSpecificConfig), where it is not the LC profile
/// in one or two channels.
pub fn beyond(params: &AudioCodecParameters) -> Option<String> {
    let config = params.extra_data.as_deref().map(Config::parse);
    let known = params.channels.as_ref().map_or(0, |c| c.count());
    beyond_lc(config, known)
}

fn beyond_lc(config: Option<Config>, channels: usize) -> Option<String> {
    let kind = match config.as_ref().map_or(2, |c| c.object_type) {
        1 => "AAC of the Main profile",
        2 => "",
        3 => "AAC of the SSR profile",
        4 => "AAC of the LTP profile",
        5 => "HE-AAC (SBR)",
        23 => "AAC-LD",
        29 => "HE-AAC v2 (SBR and PS)",
        39 => "AAC-ELD",
        42 => "xHE-AAC (USAC)",
        other => return Some(format!("AAC of object type {other}")),
    };
    if !kind.is_empty() {
        return Some(kind.to_string());
    }
    let channels = match config.map_or(0, |c| c.channels) {
        7 => 8,
        0 => channels,
        n => n,
    };
    match channels {
        0 => Some("AAC that describes its channels within the stream".to_string()),
        1 | 2 => None,
        n => Some(format!("AAC with {n} channels")),
    }
}

/// The first fields of an AudioSpecificConfig.
struct Config {
    object_type: u32,
    /// The channel configuration: as many channels up to 6; 7 means 8, and 0 that they are described elsewhere.
    channels: usize,
}

impl Config {
    fn parse(bytes: &[u8]) -> Self {
        let head = bytes.iter().chain(&[0; 8]).take(8).fold(0u64, |n, &b| n << 8 | u64::from(b));
        let mut used = 0;
        let mut bits = |n: u32| {
            used += n;
            (head >> (64 - used)) & ((1 << n) - 1)
        };
        let object_type = match bits(5) {
            31 => 32 + bits(6),
            n => n,
        };
        if bits(4) == 15 {
            bits(24); // a sample rate in full
        }
        Config { object_type: object_type as u32, channels: bits(4) as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_aac_are_named_by_their_configuration() {
        for (bytes, want) in [
            (&[0x14, 0x08][..], None),                                      // LC, 16 kHz, mono
            (&[0x14, 0x10], None),                                          // LC, 16 kHz, stereo
            (&[0x11, 0xb0, 0x56, 0xe5, 0x00], Some("AAC with 6 channels")), // LC, 48 kHz, 5.1
            (&[0x11, 0xb8], Some("AAC with 8 channels")),
            (&[0x17, 0x80, 0x3e, 0x80, 0x30], Some("AAC with 6 channels")), // a rate in full: 32 kHz
            (&[0x14, 0x00], Some("AAC that describes its channels within the stream")),
            (&[0x2b, 0x0a, 0x08, 0x00], Some("HE-AAC (SBR)")),
            (&[0xeb, 0x0a, 0x08, 0x00], Some("HE-AAC v2 (SBR and PS)")),
            (&[0xf8, 0xe8, 0x50, 0x00], Some("AAC-ELD")),
            (&[0x0c, 0x08], Some("AAC of the Main profile")),
            (&[], Some("AAC of object type 0")),
        ] {
            assert_eq!(beyond_lc(Some(Config::parse(bytes)), 0).as_deref(), want, "{bytes:x?}");
        }
        assert_eq!(beyond_lc(None, 2), None);
        assert_eq!(beyond_lc(None, 6).as_deref(), Some("AAC with 6 channels"));
    }
}
