//! Connections and credentials, and the options with which other tools reach the same cluster.

use crate::cli::ConnectionOptions;
use crate::config::access::{Access, EtcdOptions, KubernetesOptions, TalosOptions};
use crate::config::kube_sources::KubeArgs;
use crate::config::kubeconfig::Options;
use crate::config::talosconfig::Overrides;
use crate::report::Sources;

pub(super) fn access(args: &ConnectionOptions) -> Access {
    let talos = || TalosOptions {
        talosconfig: args.talosconfig.clone(),
        overrides: Overrides {
            context: args.context.clone(),
            endpoints: args.endpoints.clone(),
            cluster: args.cluster.clone(),
        },
    };
    let kubernetes = || KubernetesOptions {
        sources: KubeArgs { kubeconfig: args.kubeconfig.clone(), in_cluster: args.in_cluster },
        overrides: Options { context: args.kube_context.clone(), k8s_endpoint: args.k8s_endpoint.clone() },
        from_talos: !args.no_kubeconfig_from_talos,
    };
    let etcd = || EtcdOptions {
        endpoints: args.etcd_endpoints.clone(),
        cacert: args.etcd_cacert.clone(),
        client: args.etcd_cert.clone().zip(args.etcd_key.clone()),
    };
    Access {
        talos: (!args.no_talos).then(talos),
        kubernetes: (!args.no_kubernetes).then(kubernetes),
        etcd: (!args.etcd_endpoints.is_empty()).then(etcd),
    }
}

/// Returns the sources as typed, before anything was observed.
pub(super) fn sources(args: &ConnectionOptions) -> Sources {
    Sources {
        cluster_name: args.cluster_name.clone(),
        talosctl_options: talosctl_options(args),
        typed_endpoints: args.endpoints.clone(),
        kubectl_options: kubectl_options(args),
        etcdctl_options: etcdctl_options(args),
        ..Sources::default()
    }
}

/// Returns the options with which talosctl shows the same. Endpoints follow once it is known which of them answer.
fn talosctl_options(args: &ConnectionOptions) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(path) = &args.talosconfig {
        options.extend(["--talosconfig".to_owned(), path.display().to_string()]);
    }
    if let Some(context) = &args.context {
        options.extend(["--context".to_owned(), context.clone()]);
    }
    options
}

fn kubectl_options(args: &ConnectionOptions) -> Vec<String> {
    let mut options = Vec::new();
    if let Some(path) = &args.kubeconfig {
        options.extend(["--kubeconfig".to_owned(), path.display().to_string()]);
    }
    if let Some(context) = &args.kube_context {
        options.extend(["--context".to_owned(), context.clone()]);
    }
    options
}

fn etcdctl_options(args: &ConnectionOptions) -> Vec<String> {
    let mut options = Vec::new();
    if !args.etcd_endpoints.is_empty() {
        options.extend(["--endpoints".to_owned(), args.etcd_endpoints.join(",")]);
    }
    let files = [("--cacert", &args.etcd_cacert), ("--cert", &args.etcd_cert), ("--key", &args.etcd_key)];
    for (option, path) in files {
        options.extend(path.iter().flat_map(|path| [option.to_owned(), path.display().to_string()]));
    }
    options
}
