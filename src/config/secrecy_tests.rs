//! No error may contain a piece of a key, certificate or token, no matter how a file is corrupted.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::access::EtcdOptions;
use super::etcd::EtcdAccess;
use super::kube_sources::{Candidate, KubeArgs, candidates, from_talos};
use super::kubeconfig::{Options, tests::kubeconfig};
use super::talosconfig::{self, Found, Origin, Overrides};
use super::testing::Pair;
use super::{ConfigError, Environment};

const TOKEN: &str = "k9Zq.7hRw-2xVbN_4mTs8Lp3cYd6Gf1Ja";
const LONGEST_FRAGMENT: usize = 8;

struct Material {
    talosconfig: String,
    kubeconfig: String,
    fragments: HashSet<Vec<u8>>,
}

static MATERIAL: LazyLock<Material> = LazyLock::new(|| {
    let pair = Pair::talos("os:admin");
    let talosconfig = format!(
        "context: prod\ncontexts:\n  prod:\n    endpoints: [10.0.0.1]\n    ca: {0}\n    crt: {0}\n    key: {1}\n    proxy-url: http://user:{TOKEN}@proxy.example\n",
        pair.certificate64(),
        pair.key64()
    );
    let kubeconfig = kubeconfig(&pair).replace("  user:\n", &format!("  user:\n    token: {TOKEN}\n"));
    let secrets = [pair.certificate64(), pair.key64(), pair.certificate, pair.key, TOKEN.to_owned()];
    let mut fragments = HashSet::new();
    for secret in &secrets {
        // The armor lines are not secret.
        for line in secret.lines().filter(|line| !line.starts_with("-----")) {
            fragments.extend(line.as_bytes().windows(LONGEST_FRAGMENT).map(<[u8]>::to_vec));
        }
    }
    Material { talosconfig, kubeconfig, fragments }
});

#[derive(Clone, Debug)]
enum Spoil {
    Flip(usize, u8),
    Delete(usize, usize),
    Insert(usize, &'static str),
    Swap(usize, usize),
    Truncate(usize),
    Repeat(usize),
}

fn spoil() -> impl Strategy<Value = Spoil> {
    let at = 0..100_000_usize;
    let piece = prop::sample::select(vec![
        "\n",
        ": ",
        ":",
        "'",
        "\"",
        "[",
        "]",
        "{",
        "}",
        "- ",
        "\n- ",
        "\n  ",
        "\n      ",
        "\t",
        "#",
        "&a ",
        "*a ",
        "!!x ",
        "!",
        "|\n",
        "%",
        "\\",
        "-----BEGIN ",
        "-----END ",
        "-----",
        "\n---\n",
        "\u{0}",
        "\u{1b}",
        "\u{202e}",
        ",",
    ]);
    prop_oneof![
        (at.clone(), any::<u8>()).prop_map(|(at, bits)| Spoil::Flip(at, bits)),
        (at.clone(), 1..200_usize).prop_map(|(at, length)| Spoil::Delete(at, length)),
        (at.clone(), piece).prop_map(|(at, piece)| Spoil::Insert(at, piece)),
        (0..40_usize, 0..40_usize).prop_map(|(a, b)| Spoil::Swap(a, b)),
        at.clone().prop_map(Spoil::Truncate),
        (0..40_usize).prop_map(Spoil::Repeat),
    ]
}

fn apply(text: &str, spoils: &[Spoil]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for spoil in spoils {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match *spoil {
            Spoil::Flip(at, bits) => bytes[at % length] ^= bits,
            Spoil::Delete(at, count) => drop(bytes.drain(at % length..(at % length + count).min(length))),
            Spoil::Insert(at, piece) => drop(bytes.splice(at % length..at % length, piece.bytes())),
            Spoil::Truncate(at) => bytes.truncate(at % length),
            Spoil::Swap(..) | Spoil::Repeat(_) => {
                let mut lines: Vec<Vec<u8>> =
                    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
                let count = lines.len();
                match *spoil {
                    Spoil::Swap(a, b) => lines.swap(a % count, b % count),
                    Spoil::Repeat(at) => lines.insert(at % count, lines[at % count].clone()),
                    _ => {}
                }
                bytes = lines.concat();
            }
        }
    }
    bytes
}

fn holds_secret(error: &ConfigError) -> Option<String> {
    let text = format!("{error}\n{error:?}\n{error:#?}\n{}", error.hint.as_deref().unwrap_or_default());
    let found = text.as_bytes().windows(LONGEST_FRAGMENT).any(|window| MATERIAL.fragments.contains(window));
    found.then_some(text)
}

fn check<T: std::fmt::Debug>(result: Result<T, ConfigError>) -> Result<(), TestCaseError> {
    match result {
        Err(error) => prop_assert_eq!(holds_secret(&error), None),
        Ok(value) => {
            let text = format!("{value:?}").into_bytes();
            prop_assert!(!text.windows(LONGEST_FRAGMENT).any(|window| MATERIAL.fragments.contains(window)));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_error_holds_a_piece_of_a_secret(spoils in prop::collection::vec(spoil(), 0..4)) {
        let environment = Environment::new::<&str, &str>([]);
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("config");
        std::fs::write(&path, apply(&MATERIAL.talosconfig, &spoils)).unwrap();
        check(talosconfig::load(&Found { path: path.clone(), origin: Origin::Flag }, &Overrides::default(), &environment))?;
        let text = apply(&MATERIAL.kubeconfig, &spoils);
        std::fs::write(&path, &text).unwrap();
        check(Candidate::Flag(path).load(&Options::default(), &environment))?;
        check(from_talos(&text, &Options::default(), &environment))?;
    }
}

/// Secrets that a user may paste where a path or a program belongs: whole or cut, on one line or many.
fn pasted() -> Vec<String> {
    let pair = Pair::talos("os:admin");
    let jwt = "eyJhbGciOiJSUzI1NiIsImtpZCI6IkEifQ.eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ.c2lnbmF0dXJlc2lnbmF0dXJl";
    let long = format!("{jwt}{}", "Zm9vYmFy".repeat(2000));
    let key = pair.key64();
    let wrapped: Vec<_> = key.as_bytes().chunks(40).map(String::from_utf8_lossy).collect();
    vec![
        pair.certificate64(),
        pair.key64(),
        wrapped.join("\n"),
        pair.certificate.clone(),
        pair.key.clone(),
        pair.key.lines().nth(1).unwrap().to_owned(),
        jwt.to_owned(),
        long,
        TOKEN.to_owned(),
        "07401b.f395accd246ae52d".to_owned(),
        "f395accd246ae52d07401bf395accd246ae52d".to_owned(),
        "550e8400-e29b-41d4-a716-446655440000".to_owned(),
    ]
}

/// Returns whether `text` shows any eight characters of a line of `secret`.
fn shows(text: &str, secret: &str) -> bool {
    let lines = secret.lines().filter(|line| !line.starts_with("-----"));
    lines.flat_map(|line| line.as_bytes().windows(LONGEST_FRAGMENT)).any(|piece| {
        let piece = std::str::from_utf8(piece).unwrap();
        text.contains(piece)
    })
}

fn all_of(error: &ConfigError) -> String {
    format!("{error}\n{error:?}\n{}", error.hint.as_deref().unwrap_or_default())
}

#[test]
fn a_secret_where_a_path_belongs_is_not_repeated() {
    let environment = Environment::new::<&str, &str>([]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let good = kubeconfig(&Pair::talos("os:admin"));
    for secret in pasted() {
        let quoted = serde_json::to_string(&secret).unwrap();
        for (from, to) in [
            ("    client-certificate-data: ", format!("    tokenFile: {quoted}\n    client-certificate-data: ")),
            ("    client-certificate-data: ", format!("    client-certificate: {quoted}\n    x: ")),
            ("    client-key-data: ", format!("    client-key: {quoted}\n    x: ")),
            ("    certificate-authority-data: ", format!("    certificate-authority: {quoted}\n    x: ")),
            ("    server: ", format!("    proxy-url: {quoted}\n    server: ")),
            ("    cluster: home", format!("    cluster: {quoted}")),
            ("    user: admin@home", format!("    user: {quoted}")),
        ] {
            std::fs::write(&path, good.replacen(from, &to, 1)).unwrap();
            let loaded = Candidate::Flag(path.clone()).load(&Options::default(), &environment);
            // A short token without capital letters looks like any other name, so it may be shown where a name belongs.
            let is_name = to.starts_with("    cluster:") || to.starts_with("    user:");
            let looks_like_a_name = secret.len() < 40 && !secret.contains(char::is_uppercase);
            if let Err(error) = loaded.as_ref().map(|_| ()) {
                let text = all_of(error);
                assert!(is_name && looks_like_a_name || !shows(&text, &secret), "{to}: {text}");
            }
            assert!(loaded.is_err() || to.contains("proxy-url"), "{to}");
        }
        let exec = format!("    exec: {{command: {quoted}, args: [{quoted}]}}\n    x: ");
        std::fs::write(&path, good.replacen("    client-certificate-data: ", &exec, 1)).unwrap();
        for candidate in [Candidate::Flag(path.clone()), Candidate::Home(path.clone())] {
            if let Err(error) = candidate.load(&Options::default(), &environment) {
                assert!(!shows(&all_of(&error), &secret), "{error}");
            }
        }
    }
}

#[test]
fn contents_where_a_file_s_path_belongs_are_not_repeated() {
    let pair = Pair::talos("os:admin");
    let mut contents = pasted();
    // Short secrets without capital letters look like any file name, and users already expose them on the command line or in the
    // environment.
    contents.retain(|text| text.len() >= 40 || text.contains(char::is_uppercase));
    contents.extend([kubeconfig(&pair), MATERIAL.talosconfig.clone(), MATERIAL.kubeconfig.clone()]);
    for text in contents {
        let environment = Environment::new([("KUBECONFIG", &text), ("TALOSCONFIG", &text)]);
        let mut said = Vec::new();
        for candidate in candidates(&KubeArgs::default(), &environment, false) {
            said.push(candidate.name());
            said.push(all_of(&candidate.load(&Options::default(), &environment).unwrap_err()));
        }
        let flag = Candidate::Flag(PathBuf::from(&text));
        said.push(flag.name());
        said.push(all_of(&flag.load(&Options::default(), &environment).unwrap_err()));
        said.push(match talosconfig::find(None, &environment) {
            Err(error) => all_of(&error),
            Ok(found) => all_of(&talosconfig::load(&found, &Overrides::default(), &environment).unwrap_err()),
        });
        let cacert = Some(PathBuf::from(&text));
        said.push(all_of(
            &EtcdAccess::load(&EtcdOptions { cacert, ..EtcdOptions::default() }, &environment).err().unwrap(),
        ));
        let variables = [("CLUSTER_HEALTH_ETCD_USER", "health"), ("CLUSTER_HEALTH_ETCD_PASSWORD_FILE", text.as_str())];
        let password = EtcdAccess::load(&EtcdOptions::default(), &Environment::new(variables));
        said.push(all_of(&password.err().unwrap()));
        for said in said {
            for secret in MATERIAL.fragments.iter().map(|fragment| String::from_utf8_lossy(fragment)) {
                assert!(!said.contains(secret.as_ref()), "{said}");
            }
            let value = text.split(':').any(|piece| piece.len() > 40 && shows(&said, piece));
            assert!(!value, "{said}");
        }
    }
}
