//! Addresses as configurations and members write them.

/// The host in `https://host:port`, `host:port` or `[host]:port`.
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
