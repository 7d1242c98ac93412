# lib.sh: common code of rig.sh and faults.sh for the rig without Talos. To be sourced; it starts nothing on its own.
# shellcheck source=../lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
set +e # commands that may fail are the rule here; where they may not, it is said
own=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) # $here is the folder above, with build.sh

# ---- paths -----------------------------------------------------------------------------------------------------------
state=$E2E_CACHE/rig/$E2E_NAME-k8s # beside the Talos rig of that name, whose names have no hyphen
pki=$state/pki   # CAs, certificates, keys, kubeconfigs
run=$state/run   # NAME.pid, NAME.log of every process
data=$state/data # of etcd, or of kine
net=$E2E_NAME-k8s # network namespace: loopback and nothing else, so that nothing leaves it
PATH=$bin:$PATH

# The first `rig.sh up` takes the settings from the environment and stores them; they stay the same until `down`.
asked=${KUBERNETES:-}
[ ! -f "$state/kubernetes" ] || KUBERNETES=$(< "$state/kubernetes")
: "${KUBERNETES:=$(pinned KUBERNETES_DEFAULT)}"
suffix=$(suffix_of KUBERNETES "$KUBERNETES")
asked_etcd=${ETCD:-}
[ ! -f "$state/etcd" ] || ETCD=$(< "$state/etcd")
: "${ETCD:=$(pinned ETCD)}"
etcd=etcd
[ "$ETCD" = "$(pinned ETCD)" ] || etcd=etcd-$ETCD
# The layout of the cluster, as distributions create theirs: static-pods, processes (control planes without static pods), hosted (the
# control planes are not Nodes), named-dns (DNS behind a Service with another name), sqlite (processes, and the API servers store in a
# file, through kine), one-server (the same with one control plane, which elects no leaders and runs kube-proxy in its own process).
asked_shape=${SHAPE:-}
[ ! -f "$state/shape" ] || SHAPE=$(< "$state/shape")
: "${SHAPE:=static-pods}"
servers="1 2 3" storage=etcd elect=true # API servers; what stores for them; whether leaders are elected
case $SHAPE in
  static-pods | processes | hosted | named-dns) ;;
  sqlite) storage=kine ;;
  one-server) storage=kine servers=1 elect=false ;;
  *) die "SHAPE=$SHAPE: wanted is static-pods, processes, hosted, named-dns, sqlite or one-server" ;;
esac

# Members .1 .2 .3 (.4 for faults), balancer .100, a slow server's own address .50; workers from the third octet + 10 on.
subnet=127.0.10
vip=$subnet.100
workers=5
export ETCD_ENDPOINTS=https://$subnet.1:2379,https://$subnet.2:2379,https://$subnet.3:2379
export CP1=$subnet.1 CP2=$subnet.2 CP3=$subnet.3 CP4=$subnet.4 VIP=$vip # for shell commands inside the rig
# The administrator's credentials for kubectl and etcdctl. The caller's own belong to another cluster.
export KUBECONFIG=$pki/admin.kubeconfig KUBECACHEDIR=$run/kube-cache
export ETCDCTL_CACERT=$pki/etcd-ca.crt ETCDCTL_CERT=$pki/etcd-root.crt ETCDCTL_KEY=$pki/etcd-root.key
unset -f talosctl kubectl

# Commands of the rig run inside its network: restarts the script there, unless it already runs there.
enter_rig() { # ARG...: those of the script
  [ -e "/run/netns/$net" ] || die "rig '$E2E_NAME' is not up (no network namespace $net)"
  [ "$(stat -L -c %i /proc/self/ns/net)" = "$(stat -L -c %i "/run/netns/$net")" ] ||
    exec nsenter --net="/run/netns/$net" "$0" "$@"
}
etcd_do() {
  etcdctl --endpoints "$ETCD_ENDPOINTS" --command-timeout=10s "$@"
}
repeat() { # TIMES SECONDS CMD...: until it succeeds
  local times=$1 pause=$2 i
  shift 2
  for i in $(seq "$times"); do
    ! "$@" || return 0
    sleep "$pause"
  done
  echo "not within $times tries: $*" >&2
  return 1
}

# ---- processes -------------------------------------------------------------------------------------------------------
pid() { # NAME
  local pid start
  read -r pid start 2> /dev/null < "$run/$1.pid" && echo "$pid"
}
start() { # NAME HOST PROGRAM ARG...: on a machine of that name, as far as the program can tell; leases are named after it
  local name=$1 host=$2
  shift 2
  launch "$name" "$net" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
}
# Stops the process immediately, as if the machine failed: etcd would hand over its leadership, and an API server would drain its watches
# for 15 s.
crash() { # NAME
  local pid
  if alive "$1"; then
    pid=$(pid "$1")
    kill -KILL "$pid"
    while alive "$1"; do
      sleep 0.05
    done
  fi
  rm -f "$run/$1.pid"
}

# ---- components ------------------------------------------------------------------------------------------------------
peers() { # I...: value of --initial-cluster for these members
  local i list=''
  for i in "$@"; do
    list+=,cp-$i=https://$subnet.$i:2380
  done
  echo "${list#,}"
}

# Environment: etcd_cert (serving certificate of the client port), cluster_state, cluster (--initial-cluster), quota (bytes), etcd_program
start_etcd() { # I
  local i=$1 ip=$subnet.$1 cert=${etcd_cert:-etcd$1}
  mkdir -p -m 700 "$data/etcd$i"
  start "etcd$i" "cp-$i" "${etcd_program:-$etcd}" --name "cp-$i" --data-dir "$data/etcd$i" \
    --listen-peer-urls "https://$ip:2380" --initial-advertise-peer-urls "https://$ip:2380" \
    --listen-client-urls "https://$ip:2379" --advertise-client-urls "https://$ip:2379" \
    --initial-cluster "${cluster:-$(peers 1 2 3)}" --initial-cluster-state "${cluster_state:-new}" \
    --initial-cluster-token rig \
    --client-cert-auth --trusted-ca-file "$pki/etcd-ca.crt" \
    --cert-file "$pki/$cert.crt" --key-file "$pki/$cert.key" \
    --peer-client-cert-auth --peer-trusted-ca-file "$pki/etcd-ca.crt" \
    --peer-cert-file "$pki/etcd$i.crt" --peer-key-file "$pki/etcd$i.key" \
    ${quota:+--quota-backend-bytes "$quota"} --logger zap --log-level warn
}

# Speaks etcd's protocol and stores in sqlite. One for all API servers, as if they ran on one machine.
start_kine() {
  mkdir -p -m 700 "$data/kine"
  start kine cp-1 env -C "$data/kine" kine --listen-address "unix://$data/kine/socket" --metrics-bind-address 0
  repeat 100 0.1 test -S "$data/kine/socket"
}
start_storage() {
  local i
  if [ $storage = kine ]; then
    start_kine
  else
    for i in 1 2 3; do start_etcd $i; done
    wait_etcd
  fi
}

# --advertise-address is a documentation address, because EndpointSlices refuse loopback: the addresses of the `kubernetes` Service cannot
# be reached. Environment: api_cert (serving certificate), api_address, anonymous (--anonymous-auth)
start_api() { # I
  local i=$1 cert=${api_cert:-apiserver$1}
  local stored=(--etcd-servers "$ETCD_ENDPOINTS" --etcd-cafile "$pki/etcd-ca.crt"
    --etcd-certfile "$pki/etcd-client.crt" --etcd-keyfile "$pki/etcd-client.key")
  [ $storage = etcd ] || stored=(--etcd-servers "unix://$data/kine/socket")
  start "api$i" "cp-$i" "kube-apiserver$suffix" --bind-address "${api_address:-$subnet.$i}" --secure-port 6443 \
    --advertise-address "192.0.2.1$i" \
    "${stored[@]}" --client-ca-file "$pki/kube-ca.crt" --tls-cert-file "$pki/$cert.crt" --tls-private-key-file "$pki/$cert.key" \
    --service-account-issuer "https://$vip:6443" --api-audiences "https://$vip:6443" \
    --service-account-key-file "$pki/sa.pub" --service-account-signing-key-file "$pki/sa.key" \
    --service-cluster-ip-range 10.96.0.0/12 --authorization-mode Node,RBAC \
    --enable-admission-plugins NodeRestriction --allow-privileged \
    --anonymous-auth="${anonymous:-true}" --profiling=false
}

start_controller_manager() {
  local config=$pki/kube-controller-manager.kubeconfig
  start controller-manager cp-1 "kube-controller-manager$suffix" --bind-address "$subnet.1" --kubeconfig "$config" \
    --authentication-kubeconfig "$config" --authorization-kubeconfig "$config" --leader-elect="$elect" \
    --allocate-node-cidrs --cluster-cidr 10.64.0.0/10 \
    --service-cluster-ip-range 10.96.0.0/12 --root-ca-file "$pki/kube-ca.crt" \
    --cluster-signing-cert-file "$pki/kube-ca.crt" --cluster-signing-key-file "$pki/kube-ca.key" \
    --service-account-private-key-file "$pki/sa.key" --use-service-account-credentials --profiling=false
}
start_scheduler() {
  local config=$pki/kube-scheduler.kubeconfig
  start scheduler cp-1 "kube-scheduler$suffix" --bind-address "$subnet.1" --kubeconfig "$config" \
    --authentication-kubeconfig "$config" --authorization-kubeconfig "$config" --leader-elect="$elect" --profiling=false
}
start_kwok() { # plays the kubelets: heartbeats, leases, pod status
  start kwok kwok kwok --kubeconfig "$pki/admin.kubeconfig" --config "$bin/kwok-stages.yaml" \
    --manage-nodes-with-label-selector type=kwok --node-lease-duration-seconds 40 \
    --cidr 10.244.0.1/16 --node-ip "$subnet.99"
}
# Leads to API server 3 as long as that accepts connections. Environment: latency
start_balancer() { # [BACKEND...]
  local backends=("$@")
  [ $# -gt 0 ] || backends=("$subnet.3:6443" "$subnet.2:6443" "$subnet.1:6443")
  start balancer vip balancer ${latency:+-latency "$latency"} "$vip:6443" "${backends[@]}"
}

# Starts processes that do not run, and waits until all API servers are ready. The rig has no supervision: the controller manager and
# the scheduler exit by design when they lose their lease, so undoing any fault ends with this function.
bring_up() {
  local i
  start_storage || return
  for i in $servers; do start_api $i; done
  start_balancer
  for i in $servers; do wait_ready $i || return; done
  start_controller_manager
  start_scheduler
  start_kwok
}

# ---- waiting ---------------------------------------------------------------------------------------------------------
wait_etcd() { # [I...]: these members (default all three) are healthy
  local only=$ETCD_ENDPOINTS
  [ $# -eq 0 ] || only=$(printf ",https://$subnet.%s:2379" "$@")
  repeat 20 0.2 etcd_healthy "${only#,}" # each try takes up to 3 s
}
etcd_healthy() { # ENDPOINTS
  etcdctl --endpoints "$1" --command-timeout=3s endpoint health > /dev/null 2>&1
}
# Prints the HTTP code of /readyz. Certificates are not verified, because some faults give the server a bad one.
readyz() { # ADDRESS [USER]: as this one, the administrator by default
  curl -sk -m 5 -o /dev/null -w '%{http_code}' --cert "$pki/${2:-admin}.crt" --key "$pki/${2:-admin}.key" "https://$1:6443/readyz"
}
answers() { # CODE ADDRESS [USER]
  [ "$(readyz "${@:2}")" = "$1" ]
}
wait_ready() { # I
  repeat 300 0.2 answers 200 "$subnet.$1"
}

# Nodes and pods: three control planes, workers, mirror pods. Creates missing ones, and waits until all are ready.
objects() {
  python3 "$own/objects.py" "$workers" "v$KUBERNETES" "$pki" "$subnet" "$SHAPE"
}
