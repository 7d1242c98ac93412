//! Kubeconfig, directories and logs.

use std::io::Read as _;

use flate2::read::GzDecoder;
use talos_api::google::protobuf::Empty;
use talos_api::machine::{FileInfo, ListRequest, LogsRequest};
use tonic::Code;

use crate::client::{SOON, admin, cluster, failed};

#[tokio::test]
async fn the_kubeconfig_is_an_archive_that_was_never_closed() {
    let simulator = cluster(|_| {});
    let mut stream = admin(&simulator, "cp-1").await.kubeconfig(Empty {}).await.unwrap().into_inner();
    let mut packed = Vec::new();
    while let Some(chunk) = stream.message().await.unwrap() {
        packed.extend(chunk.bytes);
    }
    let mut archive = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut archive).unwrap();
    let (header, content) = archive.split_at(512);
    let field =
        |range: std::ops::Range<usize>| String::from_utf8_lossy(&header[range]).trim_matches(['\0', ' ']).to_owned();
    assert_eq!(
        (field(0..100), field(100..108), field(257..263)),
        ("kubeconfig".into(), "0000600".into(), "ustar".into())
    );
    assert_eq!(usize::from_str_radix(&field(124..136), 8).unwrap(), content.len());
    let mut summed = header.to_vec();
    summed[148..156].fill(b' ');
    let sum: u32 = summed.into_iter().map(u32::from).sum();
    assert_eq!(u32::from_str_radix(&field(148..154), 8).unwrap(), sum);

    let content = String::from_utf8(content.to_vec()).unwrap();
    assert!(content.contains("name: admin@simulated\n"), "{content}");
    assert!(content.contains(&format!("server: https://{}:6443\n", simulator.network().balancer())), "{content}");
}

#[tokio::test]
async fn directories_are_listed() {
    let simulator = cluster(|world| {
        let files = &mut world.machine_mut("cp-1").files;
        let member = FileInfo { name: "member".to_owned(), is_dir: true, ..FileInfo::default() };
        files.insert("/var/lib/etcd".to_owned(), vec![member]);
    });
    let mut client = admin(&simulator, "cp-1").await;
    let request = |root: &str| ListRequest { root: root.to_owned(), recurse: false, recursion_depth: 1 };
    let mut stream = client.list(request("/var/lib/etcd")).await.unwrap().into_inner();
    let mut names = Vec::new();
    while let Some(entry) = stream.message().await.unwrap() {
        names.push((entry.name, entry.relative_name));
    }
    let expected = [("/var/lib/etcd", "."), ("/var/lib/etcd/member", "member")];
    assert_eq!(names, expected.map(|(name, relative)| (name.to_owned(), relative.to_owned())));
    let missing = failed(client.list(request("/nowhere")).await);
    assert_eq!(missing, (Code::Unknown, "lstat /nowhere: no such file or directory".to_owned()));
}

#[tokio::test]
async fn logs_begin_where_asked_and_are_followed() {
    let simulator = cluster(|world| {
        world.machine_mut("cp-1").logs.insert("etcd".to_owned(), vec!["one".to_owned(), "two".to_owned()]);
    });
    let mut client = admin(&simulator, "cp-1").await;
    let request =
        |tail_lines, follow| LogsRequest { id: "etcd".to_owned(), tail_lines, follow, ..LogsRequest::default() };
    for (tail, expected) in [(-1, "one\ntwo\n"), (1, "two\n"), (0, ""), (9, "one\ntwo\n")] {
        let mut stream = client.logs(request(tail, false)).await.unwrap().into_inner();
        let mut text = Vec::new();
        while let Some(chunk) = stream.message().await.unwrap() {
            text.extend(chunk.bytes);
        }
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
    let mut stream = client.logs(request(1, true)).await.unwrap().into_inner();
    simulator.change(|world| world.machine_mut("cp-1").logs.get_mut("etcd").unwrap().push("three".to_owned()));
    for expected in ["two\n", "three\n"] {
        let chunk = tokio::time::timeout(SOON, stream.message()).await.unwrap().unwrap().unwrap();
        assert_eq!(chunk.bytes, expected.as_bytes());
    }
}
