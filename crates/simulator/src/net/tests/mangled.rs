//! Corrupted answers.

use hyper::client::conn::http1;

use super::*;

/// The received part of a body and its end; `TooMuch` if the body exceeded the limit.
#[derive(Debug, PartialEq, Eq)]
enum Arrived {
    Whole(Vec<u8>),
    Broken(Vec<u8>),
    Stalled(Vec<u8>),
    TooMuch,
}

async fn arrived(mut body: Incoming) -> Arrived {
    let mut bytes = Vec::new();
    loop {
        match timeout(NEVER, body.frame()).await {
            Err(_) => return Arrived::Stalled(bytes),
            Ok(None) => return Arrived::Whole(bytes),
            Ok(Some(Err(_))) => return Arrived::Broken(bytes),
            Ok(Some(Ok(frame))) => bytes.extend(frame.data_ref().map_or(&[][..], |data| data)),
        }
        if bytes.len() > 1 << 20 {
            return Arrived::TooMuch;
        }
    }
}

#[tokio::test]
async fn of_grpc() {
    let cluster = Cluster::start();
    let mut connection = Http2::over(cluster.connect(&cluster.apid(0)).await.unwrap()).await;
    let whole = connection.ask("/grpc/right").await.unwrap().into_bytes();
    let half = whole[..whole.len() / 2].to_vec();
    let mut asked = async |path| arrived(connection.send(path).await.unwrap().into_body()).await;
    assert_eq!(asked("/grpc/cut").await, Arrived::Broken(half.clone()));
    assert_eq!(asked("/grpc/stall").await, Arrived::Stalled(half));
    assert_eq!(asked("/grpc/endless").await, Arrived::TooMuch);
    let Arrived::Whole(garbage) = asked("/grpc/garbage").await else { panic!("it has no end") };
    assert_eq!(usize::from(garbage[3]) << 8 | usize::from(garbage[4]), garbage.len() - 5, "it is framed");
    assert_eq!(asked("/grpc/right").await, Arrived::Whole(whole), "the connection is as good as before");
}

#[tokio::test]
async fn of_http_1() {
    let cluster = Cluster::start();
    let server = cluster.api_server(0);
    let asked = async |path: &str| {
        let mut client = cluster.client(&server);
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        let stream = cluster.secure(&server, client).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let response = sender.send_request(Request::get(path).body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        arrived(response.into_body()).await
    };
    let Arrived::Whole(whole) = asked("/right").await else { panic!("it breaks off") };
    let half = whole[..whole.len() / 2].to_vec();
    assert_eq!(asked("/cut").await, Arrived::Broken(half.clone()));
    assert_eq!(asked("/stall").await, Arrived::Stalled(half));
    assert_eq!(asked("/endless").await, Arrived::TooMuch);
    let Arrived::Whole(garbage) = asked("/garbage").await else { panic!("it has no end") };
    assert!(std::str::from_utf8(&garbage).is_err());
}
