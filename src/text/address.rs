//! Addresses in the notations of configurations and etcd members.

/// Returns the host of `https://host:port`, `host:port` or `[host]:port`.
pub(crate) fn host(address: &str) -> &str {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address = address.split('/').next().unwrap_or(address);
    if let Some((host, _)) = address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    match address.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') => host,
        _ => address,
    }
}

/// Returns true if a URL or `host:port` contains a port.
pub(crate) fn has_port(address: &str) -> bool {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address = address.split('/').next().unwrap_or(address);
    address.strip_prefix('[').map_or_else(|| address.matches(':').count() == 1, |rest| rest.contains("]:"))
}

/// Returns the host as it is written before a port.
pub(crate) fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_named_or_not() {
        for with in ["https://k8s.example:6443", "10.0.0.1:6443/path", "https://[fd00::1]:6443", "[fd00::1]:443"] {
            assert!(has_port(with), "{with}");
        }
        for without in ["https://k8s.example", "https://k8s.example/a:b", "10.0.0.1", "https://[fd00::1]/", "fd00::1"] {
            assert!(!has_port(without), "{without}");
        }
    }
}
