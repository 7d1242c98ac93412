#!/bin/bash
# A real etcd (or kine) and Kubernetes control plane, three of each, without Talos; nodes and pods are played by kwok. All addresses
# are loopback, in a network namespace that has nothing else. Root.
#
#   rig.sh up                  starts what does not run; idempotent. KUBERNETES=1.35.4 and ETCD=3.6.16 are versions, SHAPE=processes
#                              is a layout (see lib.sh)
#   rig.sh rights MANIFEST     gives the user cluster-health the rights of this ClusterRole and no other
#   rig.sh exec CMD...         any command inside the rig's network, as the administrator
#   rig.sh status              processes, memory, /readyz, etcd, nodes and pods
#   rig.sh down                stops everything and deletes the cluster
#
# Programs: $E2E_CACHE/bin, made by `../build.sh k8s`; state: $E2E_CACHE/rig/$E2E_NAME-k8s.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

need_programs() {
  local p missing=''
  local storage_programs="$etcd etcdctl"
  [ $storage = etcd ] || storage_programs=kine
  for p in $storage_programs kube-{apiserver,controller-manager,scheduler}"$suffix" kubectl kwok balancer; do
    [ -x "$bin/$p" ] || missing+=" $p"
  done
  [ -z "$missing" ] || die "not built:$missing. '$here/build.sh$missing' builds them"
  for p in curl openssl python3 setsid nsenter unshare hostname; do
    command -v $p > /dev/null || die "$p is not in PATH"
  done
}

network_up() {
  [ -e "/run/netns/$net" ] || ip netns add "$net" || die "root is needed (network namespaces)"
  ip -n "$net" link set lo up
}

up() {
  [ "${asked:-$KUBERNETES}" = "$KUBERNETES" ] || die "the rig has Kubernetes $KUBERNETES, not $asked; '$0 down' first"
  [ "${asked_etcd:-$ETCD}" = "$ETCD" ] || die "the rig has etcd $ETCD, not $asked_etcd; '$0 down' first"
  [ "${asked_shape:-$SHAPE}" = "$SHAPE" ] || die "the rig is of shape $SHAPE, not $asked_shape; '$0 down' first"
  need_programs
  (umask 077 && mkdir -p "$run" "$data")
  echo "$KUBERNETES" > "$state/kubernetes"
  echo "$ETCD" > "$state/etcd"
  echo "$SHAPE" > "$state/shape"
  "$own/pki.sh" || die "pki.sh failed"
  bring_up || die "the control plane did not come up; logs are in $run"
  repeat 50 0.2 kubectl get namespace kube-system > /dev/null 2>&1 # its controller needs a moment
  base | kubectl apply -f - > "$run/apply.log" 2>&1 || die "$(cat "$run/apply.log")"
  objects || die "nodes and pods did not get ready"
}

base() {
  case $SHAPE in
    named-dns) sed -E 's/name: (kube-dns|coredns), namespace/name: rke2-coredns, namespace/' "$own/base.yaml" ;;
    one-server) sed '/^kind: DaemonSet$/,$d' "$own/base.yaml" | head -n -2 ;;
    *) cat "$own/base.yaml" ;;
  esac
}

rights() { # MANIFEST
  cp "$1" "$run/rights.yaml" && # what a fault takes away is given back from there
    kubectl apply -f "$1" &&
    kubectl create clusterrolebinding cluster-health --clusterrole cluster-health --user cluster-health \
      --dry-run=client -o yaml | kubectl apply -f -
}

down() {
  local pids
  # All processes in the namespace belong to the rig, including those without a pid file because `up` was interrupted.
  while pids=$(ip netns pids "$net" 2> /dev/null) && [ -n "$pids" ]; do
    kill -KILL $pids 2> /dev/null
    sleep 0.05
  done
  netns_down "$net"
  rm -rf "${state:?}/pki" "$state/run" "$state/data" "$state/kubernetes" "$state/etcd" "$state/shape"
}

status() {
  local file name i
  for file in "$run"/*.pid; do
    name=$(basename "$file" .pid)
    alive "$name" || continue
    printf '%-18s pid %-7s rss %4d MiB\n' "$name" "$(pid "$name")" $(($(awk '/^VmRSS/ { print $2 }' "/proc/$(pid "$name")/status") / 1024))
  done
  for i in $servers; do
    echo "API server $i, /readyz: $(readyz "$subnet.$i")"
  done
  [ $storage = kine ] || etcd_do endpoint status -w table
  kubectl get nodes --no-headers | awk '{ print "nodes", $2 }' | sort | uniq -c
  kubectl get pods -A --no-headers | awk '{ print "pods", $4 }' | sort | uniq -c
}

case ${1:-} in
  up)
    network_up
    enter_rig "$@"
    up ;;
  down) down ;;
  rights | status | exec)
    enter_rig "$@"
    "$@" ;;
  *)
    sed -n '2,12p' "$0"
    exit 2 ;;
esac
