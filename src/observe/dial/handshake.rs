//! Handshakes with proxies, after which a proxy passes bytes through. Each error is a fragment that follows the proxy's name.
//!
//! This is our own implementation because hyper-util's `Tunnel` reports no status except 407, and its `SocksV5` insists on a login and does
//! not report why a connection was lost.

use std::str::FromStr as _;

use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::cause;
use crate::config::endpoint::with_port;

/// Size limit for a proxy's answer, in bytes.
const LONGEST_ANSWER: usize = 8192;

/// Requests a tunnel with HTTP `CONNECT`.
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
    // In TLS the client speaks first, so only the proxy's answer can be read here. A refusal may include a page.
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
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
        // The proxy's own text may repeat the password.
        Some((version, rest)) if version.starts_with("HTTP/") => {
            Err(match StatusCode::from_str(rest.get(..3).unwrap_or_default()) {
                Ok(status) => format!("it answered {status}"),
                Err(_) => "its answer has no status".to_owned(),
            })
        }
        _ => Err("it is not an HTTP proxy".to_owned()),
    }
}

/// Requests a tunnel by RFC 1928, with RFC 1929 for user and password.
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
                return Err("it rejected the user name or password".to_owned());
            }
        }
        ([5, _], _) => return Err("it requires another authentication method".to_owned()),
        _ => return Err("it is not a SOCKS5 proxy".to_owned()),
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
            request.extend_from_slice(&[3, short(host, "the hostname")?]);
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
        _ => return Err("it is not a SOCKS5 proxy".to_owned()),
    };
    let mut rest = vec![0; bound + 2];
    stream.read_exact(&mut rest).await.map_err(io)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// Connects to a proxy that answers each read with the next of `answers` and keeps the connection open.
    async fn proxy(answers: &[&[u8]]) -> TcpStream {
        let answers: Vec<_> = answers.iter().map(|answer| answer.to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            for answer in answers {
                assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
                stream.write_all(&answer).await.unwrap();
            }
            let _ = stream.read(&mut [0; 1]).await;
        });
        stream
    }

    #[tokio::test]
    async fn connect_tells_what_the_proxy_answered() {
        for (answer, said) in [
            (&b"HTTP/1.1 200 Connection established\r\n\r\n"[..], Ok(())),
            (b"HTTP/1.1 403 By policy\r\nContent-Length: 3\r\n\r\nno\n", Err("it answered 403 Forbidden")),
            (b"SSH-2.0-x\r\n\r\n", Err("it is not an HTTP proxy")),
            (&[b'x'; LONGEST_ANSWER + 1], Err("its answer is too long")),
        ] {
            let mut stream = proxy(&[answer]).await;
            assert_eq!(connect(&mut stream, "cp-1", 50000, None).await, said.map_err(str::to_owned));
        }
    }

    #[tokio::test]
    async fn socks_offers_a_login_without_insisting() {
        let login = ("u".repeat(255), "p".repeat(255));
        let opened: &[u8] = &[5, 0, 0, 3, 0, 0, 0];
        for (answers, said) in [
            (&[&[5, 0], opened][..], Ok(())),
            (&[&[5, 2], &[1, 0], opened], Ok(())),
            (&[&[5, 2], &[1, 1]], Err("it rejected the user name or password")),
            (&[&[5, 0], &[5, 2, 0, 1]], Err("connection not allowed by its rules")),
            (&[b"HTTP/1.1 400 Bad Request\r\n\r\n"], Err("it is not a SOCKS5 proxy")),
        ] {
            let mut stream = proxy(answers).await;
            assert_eq!(socks(&mut stream, "cp-1", 50000, Some(&login)).await, said.map_err(str::to_owned));
        }
    }
}
