//! Fuzz tests: any sanitized text can be displayed, and parsers terminate on any input. See `make fuzz`.

use super::duration::GoDuration;
use super::sanitize::{ascii, brief, clean, without_secrets};
use super::version;
use super::yaml::may_unfold;

#[test]
fn sanitized_texts() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let cleaned = clean(&text);
        assert!(!cleaned.contains(|c: char| c.is_control() || "\u{202a}\u{202e}\u{2066}\u{200b}\u{feff}".contains(c)));
        // Two colons alone are not a command: addresses contain them.
        for command in ["::error::", "::group::", "::add-mask::", "::stop-commands::", "##[", "##vso["] {
            assert!(!cleaned.starts_with(command), "{cleaned:?}");
        }
        // If the text is cut within a secret, the ellipsis is hidden together with the secret.
        let uncut = |text: &str| text.trim_end_matches('…').to_owned();
        assert_eq!(uncut(&clean(&cleaned)), uncut(&cleaned), "what is clean stays as it is");
        assert!(brief(&text, 80).chars().count() <= 80);
        assert!(ascii(&cleaned).is_ascii());
        assert!(!without_secrets(&text).contains("-----BEGIN "));
    });
}

#[test]
fn durations_versions_and_bounds() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(duration) = text.parse::<GoDuration>() {
            let _ = duration.to_string();
        }
        let _ = version::numbers(&text);
        let _ = may_unfold(&text);
    });
}
