//! What has to be said to a proxy before it is a mere wire. The errors are fragments about the proxy.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::cause;
use crate::config::endpoint::with_port;

/// Longest answer of a proxy that we read, in bytes.
const LONGEST_ANSWER: usize = 8192;

/// HTTP `CONNECT`.
pub(super) async fn connect(
    stream: &mut TcpStream,
    host: &str,
    port: u16,
    authorization: Option<&str>,
) -> Result<(), String> {
    let authority = with_port(host, port);
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(authorization) = authorization {
        request.push_str("Proxy-Authorization: ");
        request.push_str(authorization);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| cause::of_io(&error).text)?;

    let mut answer = Vec::new();
    // TLS lets the client speak first, so nothing but the proxy's answer can be read here.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() > LONGEST_ANSWER {
            return Err("its answer is too long".to_owned());
        }
        if stream.read_buf(&mut answer).await.map_err(|error| cause::of_io(&error).text)? == 0 {
            return Err("the connection was closed".to_owned());
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let status = text.lines().next().unwrap_or_default();
    match status.split_once(' ') {
        Some((version, rest)) if version.starts_with("HTTP/1.") && rest.starts_with('2') => Ok(()),
        Some((version, rest)) if version.starts_with("HTTP/") => Err(format!("it answered {rest}")),
        _ => Err("it does not speak HTTP".to_owned()),
    }
}

/// RFC 1928, and RFC 1929 for user and password.
pub(super) async fn socks(
    stream: &mut TcpStream,
    host: &str,
    port: u16,
    login: Option<&(String, String)>,
) -> Result<(), String> {
    let io = |error: std::io::Error| cause::of_io(&error).text;
    let short =
        |text: &str, what: &str| u8::try_from(text.len()).map_err(|_| format!("{what} is longer than 255 bytes"));

    let offer: &[u8] = if login.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] };
    stream.write_all(offer).await.map_err(io)?;
    let mut choice = [0; 2];
    stream.read_exact(&mut choice).await.map_err(io)?;
    match (choice, login) {
        ([5, 0], _) => {}
        ([5, 2], Some((user, password))) => {
            let mut message = vec![1, short(user, "the user name")?];
            message.extend_from_slice(user.as_bytes());
            message.push(short(password, "the password")?);
            message.extend_from_slice(password.as_bytes());
            stream.write_all(&message).await.map_err(io)?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await.map_err(io)?;
            if answer[1] != 0 {
                return Err("it refused user and password".to_owned());
            }
        }
        ([5, _], _) => return Err("it asks for another authentication".to_owned()),
        _ => return Err("it does not speak SOCKS5".to_owned()),
    }

    let mut request = vec![5, 1, 0];
    match host.parse() {
        Ok(std::net::IpAddr::V4(ip)) => {
            request.push(1);
            request.extend_from_slice(&ip.octets());
        }
        Ok(std::net::IpAddr::V6(ip)) => {
            request.push(4);
            request.extend_from_slice(&ip.octets());
        }
        Err(_) => {
            request.extend_from_slice(&[3, short(host, "the host name")?]);
            request.extend_from_slice(host.as_bytes());
        }
    }
    request.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&request).await.map_err(io)?;

    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.map_err(io)?;
    if answer[0] != 5 || answer[1] != 0 {
        return Err(match answer[1] {
            2 => "connection not allowed by its rules",
            3 => "network is unreachable",
            4 => "host is unreachable",
            5 => "connection refused",
            6 => "time to live expired",
            _ => "it failed",
        }
        .to_owned());
    }
    let bound = match answer[3] {
        1 => 4,
        4 => 16,
        3 => usize::from(stream.read_u8().await.map_err(io)?),
        _ => return Err("it does not speak SOCKS5".to_owned()),
    };
    let mut rest = vec![0; bound + 2];
    stream.read_exact(&mut rest).await.map_err(io)?;
    Ok(())
}
