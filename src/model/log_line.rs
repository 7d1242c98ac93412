//! Log lines: extracts the message from the framing that programs add, and explains lines from Talos' troubleshooting guide.

use serde_json::Value;

/// Substrings of known log lines, with explanations.
const KNOWN: [(&str, &str); 5] = [
    ("cannot create certificate signing request: Unauthorized", "Kubernetes does not accept its bootstrap token"),
    ("Could not process manifest file", "the kubelet rejects the manifest"),
    ("error creating mapping for object", "the API server has not answered yet; Talos retries automatically"),
    ("error refreshing pod status", "the kubelet has not answered yet; Talos retries automatically"),
    ("missing cluster.aggregatorCA secret", "the machine configuration is that of Talos 0.8"),
];
/// Logged by every Talos controller that gives up for now.
const CONTROLLER_FAILED: &str = "controller failed";

pub(crate) fn meaning(line: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(part, _)| line.contains(part)).map(|(_, meaning)| *meaning)
}

/// Returns true for lines that explain why something did not happen, regardless of what was logged later.
pub(crate) fn is_telling(line: &str) -> bool {
    line.contains(CONTROLLER_FAILED) || meaning(line).is_some()
}

/// Returns the message and the error of a line in Kubernetes' or Talos' format, and any other line unchanged.
pub(crate) fn message(line: &str) -> String {
    of_klog(line).or_else(|| of_json(line)).unwrap_or_else(|| line.to_owned())
}

/// Parses `E1124 02:43:05.134991 2649 run.go:72] "command failed" err="unknown flag: --x"`.
fn of_klog(line: &str) -> Option<String> {
    let is_header =
        |header: &str| header.starts_with(['I', 'W', 'E', 'F']) && header[1..].starts_with(char::is_numeric);
    let (_, said) = line.split_once("] ").filter(|(header, _)| is_header(header))?;
    Some(match said.strip_prefix('"').and_then(|said| said.split_once("\" err=\"")) {
        Some((message, error)) => format!("{message}: {}", error.trim_end_matches('"')),
        None => said.to_owned(),
    })
}

/// Parses `{"ts": 1.5, "msg": "it failed", "path": "/etc/x", "err": "no"}`, or Talos' `… controller failed {"controller": "k8s.X", "error":
/// "no"}`.
fn of_json(line: &str) -> Option<String> {
    let begin = line.find('{')?;
    let fields: Value = serde_json::from_str(&line[begin..]).ok()?;
    let field = |names: &[&str]| names.iter().find_map(|name| fields[name].as_str());
    let parts = [field(&["controller"]), field(&["msg"]), field(&["path"]), field(&["err", "error"])];
    let told: Vec<&str> = parts.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join(": "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_its_message_and_its_error() {
        for (line, said) in [
            (
                r#"E1124 02:43:05.1 2649 run.go:72] "command failed" err="unknown flag: --x""#,
                "command failed: unknown flag: --x",
            ),
            ("I1124 02:43:05.1 1 a.go:7] begins", "begins"),
            (
                r#"{"ts":1644505520281.4,"caller":"config/file.go:187","msg":"Could not process manifest file","path":"/etc/kubernetes/manifests/a.yaml","err":"invalid pod: [spec.containers: Required value]"}"#,
                "Could not process manifest file: /etc/kubernetes/manifests/a.yaml: invalid pod: [spec.containers: Required value]",
            ),
            (
                r#"[talos] controller failed {"component": "controller-runtime", "controller": "k8s.ManifestApplyController", "error": "no"}"#,
                "k8s.ManifestApplyController: no",
            ),
            ("2021/03/09 13:57:11  k8s.X: controller failed: it", "2021/03/09 13:57:11  k8s.X: controller failed: it"),
            ("{not JSON", "{not JSON"),
            (r#"{"ts": 1}"#, r#"{"ts": 1}"#),
            ("é] {}", "é] {}"),
            ("", ""),
        ] {
            assert_eq!(message(line), said, "{line}");
        }
    }

    /// Covers the lines that Talos' troubleshooting guide shows. Lines that report success have no meaning attached.
    #[test]
    fn lines_of_the_guide_are_known() {
        for (line, wanted) in [
            (
                r#"k8s.ManifestApplyController: controller failed: error creating mapping for object /v1/Secret/bootstrap-token-q9pyzr: an error on the server ("") has prevented the request from succeeding"#,
                Some("API server"),
            ),
            (
                "k8s.KubeletStaticPodController: controller failed: error refreshing pod status: error fetching pod status",
                Some("kubelet"),
            ),
            (
                "Failed while requesting a signed certificate from the control plane: cannot create certificate signing request: Unauthorized",
                Some("token"),
            ),
            ("secrets.KubernetesController: controller failed: missing cluster.aggregatorCA secret", Some("Talos 0.8")),
            (r#"{"msg":"Could not process manifest file"}"#, Some("rejects")),
            (
                r#"k8s.KubeletStaticPodController: writing static pod "/etc/kubernetes/manifests/talos-kube-apiserver.yaml""#,
                None,
            ),
        ] {
            assert_eq!(meaning(line).is_some(), wanted.is_some(), "{line}");
            assert!(wanted.is_none_or(|wanted| meaning(line).unwrap().contains(wanted)), "{line}");
            assert_eq!(is_telling(line), wanted.is_some(), "{line}");
        }
        assert!(is_telling("k8s.X: controller failed: it") && meaning("k8s.X: controller failed: it").is_none());
    }
}
