//! Resources: access, contents and watches.

use simulator::Simulator;
use simulator::world::{Power, Process, TalosVersion, kind};
use talos_api::cosi::resource::event::Type;
use talos_api::cosi::resource::label_term::Operation;
use talos_api::cosi::resource::state_client::StateClient;
use talos_api::cosi::resource::{
    GetRequest, IdQuery, LabelQuery, LabelTerm, ListOptions, ListRequest, Resource, WatchOptions, WatchRequest,
    WatchResponse,
};
use tonic::{Code, Status, Streaming};

use crate::client::{Channel, SOON, cluster, connect, failed, to};

async fn state(simulator: &Simulator, name: &str, roles: &[&str]) -> StateClient<Channel> {
    StateClient::new(connect(simulator, name, roles).await)
}

async fn reader(simulator: &Simulator) -> StateClient<Channel> {
    state(simulator, "cp-1", &["os:reader"]).await
}

async fn get(client: &mut StateClient<Channel>, namespace: &str, kind: &str, id: &str) -> Result<Resource, Status> {
    let request = GetRequest { namespace: namespace.into(), r#type: kind.into(), id: id.into(), options: None };
    Ok(client.get(request).await?.into_inner().resource.unwrap())
}

async fn list(
    client: &mut StateClient<Channel>,
    namespace: &str,
    kind: &str,
    options: Option<ListOptions>,
) -> Result<Vec<String>, Status> {
    let request = ListRequest { namespace: namespace.into(), r#type: kind.into(), options };
    let mut stream = client.list(request).await?.into_inner();
    let mut ids = Vec::new();
    while let Some(answer) = stream.message().await? {
        ids.push(answer.resource.unwrap().metadata.unwrap().id);
    }
    Ok(ids)
}

#[tokio::test]
async fn resources_are_told_with_their_metadata() {
    let simulator = cluster(|_| {});
    let mut client = reader(&simulator).await;
    let member = get(&mut client, "cluster", kind::MEMBERS, "cp-2").await.unwrap();
    let metadata = member.metadata.unwrap();
    let told =
        [&metadata.namespace, &metadata.r#type, &metadata.id, &metadata.version, &metadata.owner, &metadata.phase];
    assert_eq!(told, ["cluster", kind::MEMBERS, "cp-2", "1", "cluster.MemberController", "running"]);
    let (created, updated) = (metadata.created.unwrap().seconds, metadata.updated.unwrap().seconds);
    assert!(created <= updated && updated < jiff::Timestamp::now().as_second());
    assert!(member.spec.unwrap().yaml_spec.contains("hostname: cp-2\n"));

    assert_eq!(list(&mut client, "cluster", kind::MEMBERS, None).await.unwrap(), ["cp-1", "cp-2", "cp-3", "worker-1"]);
    assert_eq!(list(&mut client, "runtime", kind::DIAGNOSTICS, None).await.unwrap(), [""; 0]);
    let elsewhere = to(
        GetRequest { namespace: "k8s".into(), r#type: kind::NODENAMES.into(), id: "nodename".into(), options: None },
        &[("node", "worker-1")],
    );
    let nodename = client.get(elsewhere).await.unwrap().into_inner().resource.unwrap();
    assert!(nodename.spec.unwrap().yaml_spec.starts_with("nodename: worker-1\n"));
}

#[tokio::test]
async fn what_is_not_there_is_told_as_talos_tells_it() {
    let simulator = cluster(|_| {});
    let mut client = reader(&simulator).await;
    let denied = |text: &str| (Code::PermissionDenied, text.to_owned());
    assert_eq!(
        failed(get(&mut client, "cluster", kind::MEMBERS, "cp-9").await),
        (Code::NotFound, "resource Members.cluster.talos.dev(cluster/cp-9@undefined) doesn't exist".to_owned())
    );
    let unknown = denied("resource type \"Foos.talos.dev\" is not supported");
    assert_eq!(failed(get(&mut client, "cluster", "Foos.talos.dev", "a").await), unknown);
    assert_eq!(failed(list(&mut client, "nowhere", "Foos.talos.dev", None).await), unknown);
    let nowhere = denied("namespace \"\" is not supported");
    assert_eq!(failed(list(&mut client, "", kind::MEMBERS, None).await), nowhere);
    // A wrong but existing namespace, and a name with different case, are not errors.
    assert_eq!(list(&mut client, "runtime", kind::MEMBERS, None).await.unwrap(), [""; 0]);
    assert_eq!(list(&mut client, "cluster", "members.cluster.talos.dev", None).await.unwrap(), [""; 0]);

    let many = to(ListRequest { namespace: "cluster".into(), ..ListRequest::default() }, &[("nodes", "cp-1")]);
    assert_eq!(failed(client.list(many).await).0, Code::InvalidArgument);
    simulator.change(|world| world.versions.talos = TalosVersion::new(7, 0));
    let new = denied(&format!("resource type \"{}\" is not supported", kind::VOLUME_STATUSES));
    assert_eq!(failed(list(&mut client, "runtime", kind::VOLUME_STATUSES, None).await), new);
}

#[tokio::test]
async fn what_is_sensitive_is_for_administrators() {
    let simulator = cluster(|_| {});
    let refused = (Code::PermissionDenied, "not authorized".to_owned());
    for roles in [&["os:reader"][..], &["os:operator"]] {
        let mut client = state(&simulator, "cp-1", roles).await;
        assert_eq!(failed(get(&mut client, "config", kind::MACHINE_CONFIGS, "v1alpha1").await), refused);
        assert_eq!(failed(list(&mut client, "config", kind::MACHINE_CONFIGS, None).await), refused);
        assert!(get(&mut client, "k8s", kind::KUBELET_CONFIGS, "kubelet").await.is_ok());
    }
    let mut admin = state(&simulator, "cp-1", &["os:admin"]).await;
    let config = get(&mut admin, "config", kind::MACHINE_CONFIGS, "v1alpha1").await.unwrap();
    assert_eq!(config.metadata.unwrap().annotations["talos.dev/yaml-spec"], "1");
    assert!(config.spec.unwrap().yaml_spec.starts_with("|\n    version: v1alpha1\n"));

    simulator.change(|world| world.versions.talos = TalosVersion::new(13, 4));
    let mut client = reader(&simulator).await;
    assert_eq!(failed(get(&mut client, "k8s", kind::KUBELET_CONFIGS, "kubelet").await), refused);
}

#[tokio::test]
async fn lists_are_narrowed_by_id_and_label() {
    let simulator = cluster(|_| {});
    let mut client = reader(&simulator).await;
    let by_id = |regexp: &str| {
        Some(ListOptions { id_query: Some(IdQuery { regexp: regexp.to_owned() }), ..ListOptions::default() })
    };
    assert_eq!(list(&mut client, "cluster", kind::MEMBERS, by_id("^cp-[12]$")).await.unwrap(), ["cp-1", "cp-2"]);
    let (code, text) = failed(list(&mut client, "cluster", kind::MEMBERS, by_id("(")).await);
    assert_eq!(code, Code::InvalidArgument, "{text}");
    let term =
        LabelTerm { key: "talos.dev/system-volume".into(), op: Operation::Exists.into(), ..LabelTerm::default() };
    for (invert, expected) in [(false, true), (true, false)] {
        let label_query = vec![LabelQuery { terms: vec![LabelTerm { invert, ..term.clone() }] }];
        let options = Some(ListOptions { label_query, id_query: None });
        let ids = list(&mut client, "runtime", kind::VOLUME_STATUSES, options).await.unwrap();
        assert_eq!(ids.contains(&"EPHEMERAL".to_owned()), expected);
    }
}

type Told = (Type, String, String);

/// The next answer: type, id and version of its events.
async fn next(stream: &mut Streaming<WatchResponse>) -> Result<Vec<Told>, Status> {
    let answer = tokio::time::timeout(SOON, stream.message()).await.unwrap()?.unwrap();
    let told = |event: talos_api::cosi::resource::Event| {
        let metadata = event.resource.clone().unwrap().metadata.unwrap();
        (event.event_type(), metadata.id, metadata.version)
    };
    Ok(answer.event.into_iter().map(told).collect())
}

fn event(kind: Type, id: &str, version: &str) -> Vec<Told> {
    vec![(kind, id.to_owned(), version.to_owned())]
}

fn watch(namespace: &str, kind: &str, id: Option<&str>, options: Option<WatchOptions>) -> WatchRequest {
    WatchRequest {
        namespace: namespace.into(),
        r#type: kind.into(),
        id: id.map(str::to_owned),
        options,
        api_version: 1,
    }
}

#[tokio::test]
async fn one_resource_is_watched() {
    let simulator = cluster(|_| {});
    let mut client = reader(&simulator).await;
    let request = to(watch("runtime", kind::MACHINE_STATUSES, Some("machine"), None), &[("node", "cp-2")]);
    let mut stream = client.watch(request).await.unwrap().into_inner();
    assert_eq!(next(&mut stream).await.unwrap(), []);
    assert_eq!(next(&mut stream).await.unwrap(), event(Type::Created, "machine", "12"));
    simulator.change(|world| {
        world
            .machine_mut("cp-1")
            .resources
            .edit(kind::MACHINE_STATUSES, "machine", |spec| spec["stage"] = "booting".into());
    });
    simulator.change(|world| {
        world
            .machine_mut("cp-2")
            .resources
            .edit(kind::MACHINE_STATUSES, "machine", |spec| spec["stage"] = "booting".into());
    });
    assert_eq!(next(&mut stream).await.unwrap(), event(Type::Updated, "machine", "13"));
    // While the machine is frozen, no events arrive; afterwards, they reflect the final state.
    simulator.change(|world| world.machine_mut("cp-2").process = Process::Frozen);
    simulator.change(|world| world.machine_mut("cp-2").resources.remove(kind::MACHINE_STATUSES, "machine"));
    simulator.change(|world| world.machine_mut("cp-2").process = Process::Running);
    assert_eq!(next(&mut stream).await.unwrap(), event(Type::Destroyed, "machine", "13"));
    simulator.change(|world| world.machine_mut("cp-2").power = Power::Off);
    assert_eq!(failed(next(&mut stream).await).0, Code::Unavailable);

    let mut stream = client.watch(watch("cluster", kind::MEMBERS, Some("cp-9"), None)).await.unwrap().into_inner();
    assert_eq!(next(&mut stream).await.unwrap(), []);
    assert_eq!(next(&mut stream).await.unwrap(), event(Type::Destroyed, "cp-9", "undefined"));
    let contents = Some(WatchOptions { bootstrap_contents: true, ..WatchOptions::default() });
    let both = client.watch(watch("cluster", kind::MEMBERS, Some("cp-1"), contents)).await;
    assert_eq!(failed(both).0, Code::Unimplemented);
    let sensitive = client.watch(watch("config", kind::MACHINE_CONFIGS, None, None)).await;
    assert_eq!(failed(sensitive), (Code::PermissionDenied, "not authorized".to_owned()));
}

#[tokio::test]
async fn all_of_a_type_are_watched() {
    let simulator = cluster(|_| {});
    let mut client = reader(&simulator).await;
    let options = |aggregated| Some(WatchOptions { bootstrap_contents: true, aggregated, ..WatchOptions::default() });
    let mut single = client.watch(watch("cluster", kind::MEMBERS, None, options(false))).await.unwrap().into_inner();
    assert_eq!(next(&mut single).await.unwrap(), []);
    for name in ["cp-1", "cp-2", "cp-3", "worker-1"] {
        assert_eq!(next(&mut single).await.unwrap(), event(Type::Created, name, "1"));
    }
    assert_eq!(next(&mut single).await.unwrap(), event(Type::Bootstrapped, "", "undefined"));

    let mut together = client.watch(watch("cluster", kind::MEMBERS, None, options(true))).await.unwrap().into_inner();
    assert_eq!(next(&mut together).await.unwrap(), []);
    assert_eq!(next(&mut together).await.unwrap().len(), 5);
    // This watch only gets changes, and an old client gets no markers, which it does not know.
    let old = WatchRequest { api_version: 0, ..watch("cluster", kind::MEMBERS, None, options(false)) };
    let mut old = client.watch(old).await.unwrap().into_inner();
    for _ in 0..5 {
        next(&mut old).await.unwrap();
    }
    let mut later = client.watch(watch("cluster", kind::MEMBERS, None, None)).await.unwrap().into_inner();
    assert_eq!(next(&mut later).await.unwrap(), []);

    simulator.change(|world| {
        world.change_everywhere(kind::MEMBERS, |resources| {
            resources.remove(kind::MEMBERS, "worker-1");
            resources.edit(kind::MEMBERS, "cp-3", |spec| spec["hostname"] = "other".into());
        });
    });
    for stream in [&mut single, &mut old, &mut later] {
        assert_eq!(next(stream).await.unwrap(), event(Type::Updated, "cp-3", "2"));
        assert_eq!(next(stream).await.unwrap(), event(Type::Destroyed, "worker-1", "1"));
    }
    let both = [event(Type::Updated, "cp-3", "2"), event(Type::Destroyed, "worker-1", "1")].concat();
    assert_eq!(next(&mut together).await.unwrap(), both);
}
