# lib.sh: common code of rig.sh, faults.sh and the rig in k8s/. To be sourced; it starts nothing on its own.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
  echo "${0##*/}: $*" >&2
  exit 1
}
log() {
  printf '%s +%3ds %s\n' "$(date +%T)" $SECONDS "$*"
}

# ---- paths -----------------------------------------------------------------------------------------------------------
E2E_CACHE=${E2E_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cluster-health}
E2E_NAME=${E2E_NAME:-ch}
# The prefix of network interface names, which have 15 characters at most.
[[ $E2E_NAME =~ ^[a-z][a-z0-9]{0,7}$ ]] || die "E2E_NAME=$E2E_NAME: wanted are 1 to 8 characters a-z, 0-9"
bin=$E2E_CACHE/bin
state=$E2E_CACHE/rig/$E2E_NAME
cfg=$state/cfg     # secrets, machine configs, talosconfig, kubeconfig
run=$state/run     # NAME.log, NAME.pid of every process
disks=$state/disks # what the nodes keep over a reboot
net=$E2E_NAME-net  # network namespace of the switch, the image registry and the discovery service
cgroup=$E2E_NAME-talos
all_nodes="cp1 cp2 cp3 cp4 w1 m1" # m1 is the one without a config (maintenance mode)

# ---- settings --------------------------------------------------------------------------------------------------------
# `rig.sh up` takes the settings from the environment and stores them; every other command uses those of the last `up`.
setting_names="MODE TALOS E2E_SUBNET CNI NOPROXY NODNS NODISC"
pinned() { # NAME: a version at the top of build.sh
  sed -n "s/^$1=\([0-9.]*\).*/\1/p" "$here/build.sh"
}
defaults() {
  local name
  : "${MODE:=ha}"             # single (cp1), pair (cp1 cp2 w1), ha (cp1 cp2 cp3 w1) or even (cp1 cp2 cp3 cp4)
  : "${TALOS:=$(pinned TALOS_DEFAULT)}" # version of machined and talosctl
  TALOS=${TALOS#v}
  : "${E2E_SUBNET:=10.55.0}"  # first three octets; inside the rig's namespaces only
  : "${CNI:=flannel}"         # flannel, or none (a bridge per node, no routes between nodes)
  : "${NOPROXY:=false}"       # true: no kube-proxy
  : "${NODNS:=false}"         # true: no coredns
  : "${NODISC:=false}"        # true: no discovery service
  [[ $MODE =~ ^(single|pair|ha|even)$ ]] || die "mode $MODE: wanted is single, pair, ha or even"
  [[ $CNI =~ ^(flannel|none)$ ]] || die "CNI=$CNI: wanted is flannel or none"
  [[ $E2E_SUBNET =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || die "E2E_SUBNET=$E2E_SUBNET: wanted are three octets"
  for name in NOPROXY NODNS NODISC; do
    case ${!name} in
      1 | true) printf -v $name true ;;
      0 | false) printf -v $name false ;;
      *) die "$name=${!name}: wanted is true or false" ;;
    esac
  done
  case $MODE in
    single) nodes=cp1 ;;
    pair) nodes="cp1 cp2 w1" ;;
    ha) nodes="cp1 cp2 cp3 w1" ;;
    even) nodes="cp1 cp2 cp3 cp4" ;;
  esac
  suffix=$(suffix_of TALOS "$TALOS")
  KUBERNETES=$(pinned KUBERNETES_DEFAULT)
  read -r _ ETCD _ < <("$here/build.sh" with "$TALOS")
}
suffix_of() { # TALOS|KUBERNETES VERSION: of the programs that belong to this version of it
  [ "$2" = "$(pinned "$1_DEFAULT")" ] || echo "-$2"
}
rootfs_of() { # VERSION
  echo "$state/rootfs-$1"
}
settings_text() {
  local name
  for name in $setting_names; do
    printf ': "${%s:=%s}"\n' "$name" "${!name}"
  done
}
remembered() { # settings of the last `up`; the environment does not count
  [ -f "$state/settings" ] || die "rig '$E2E_NAME' is not up (nothing in $state)"
  unset $setting_names
  . "$state/settings"
  defaults
}

node_ip() { # NODE
  case $1 in
    cp1) echo "$E2E_SUBNET.2" ;;
    cp2) echo "$E2E_SUBNET.3" ;;
    cp3) echo "$E2E_SUBNET.4" ;;
    w1) echo "$E2E_SUBNET.5" ;;
    m1) echo "$E2E_SUBNET.6" ;;
    cp4) echo "$E2E_SUBNET.7" ;;
    *) die "no node '$1'; there are $nodes" ;;
  esac
}
ips() { # NODE...: their addresses with commas
  local node list=''
  for node in "$@"; do
    list+=,$(node_ip "$node")
  done
  echo "${list#,}"
}
control_planes() {
  local node
  for node in $nodes; do
    [[ $node != cp* ]] || echo "$node"
  done
}

# ---- commands inside the rig -----------------------------------------------------------------------------------------
unset LIMIT # one in the caller's environment means something else
in_rig() ( # CMD...; LIMIT= seconds after which it is ended
  # In the foreground: in a separate process group, it would outlive a Ctrl-C that ends this script.
  exec_in_rig ${LIMIT:+timeout --foreground "$LIMIT"} "$@"
)
# Replaces this shell: the caller's signals reach the command itself, and the caller sees the command's exit.
exec_in_rig() {
  local node
  for node in $nodes; do
    export "${node^^}=$(node_ip "$node")" # CP1, CP2, CP3, W1: for shell commands like `talosctl -n $CP2`
  done
  export PATH=$state/bin:$bin:$PATH KUBECACHEDIR=$run/kube-cache # kubectl would write to the caller's home
  exec nsenter --net="/run/netns/$net" "$@" 8>&-
}
# The rig's own credentials: the caller's TALOSCONFIG and KUBECONFIG belong to another cluster.
talosctl() {
  TALOSCONFIG=$cfg/talosconfig in_rig talosctl "$@"
}
kubectl() {
  KUBECONFIG=$cfg/kubeconfig in_rig kubectl "$@"
}
on_node() { # NODE ARG...: talosctl through this node's own apid
  local ip
  ip=$(node_ip "$1")
  shift
  talosctl -n "$ip" -e "$ip" "$@"
}

print_kubeconfig() { # NAME SERVER CA-BASE64 USER: a kubeconfig; USER is the one line that proves who it is
  cat << Y
apiVersion: v1
kind: Config
current-context: $1
contexts: [{name: $1, context: {cluster: $1, user: $1}}]
clusters: [{name: $1, cluster: {server: "$2", certificate-authority-data: $3}}]
users: [{name: $1, user: {$4}}]
Y
}

# ---- processes -------------------------------------------------------------------------------------------------------
# A pid file contains "PID STARTTIME". Both must match, so a recycled pid is never mistaken for ours and never killed.
started() { # PID: its start time in clock ticks; nothing once it and all its threads have ended
  local stat threads
  stat=$(cat "/proc/$1/stat" 2> /dev/null) || return 0
  threads=("/proc/$1/task/"*)
  set -- ${stat##*) }
  # A zombie with remaining threads still holds its sockets: the next process could not bind the port.
  [ "$1" = Z ] && [ ${#threads[@]} -le 1 ] || echo "${20}"
}
alive() { # NAME
  local pid start
  read -r pid start 2> /dev/null < "$run/$1.pid" || return 1
  [ -n "$start" ] && [ "$(started "$pid")" = "$start" ]
}
launch() { # NAME NETNS PROGRAM ARG...: starts it in the background, unless it runs
  local name=$1 netns=$2 pid
  shift 2
  ! alive "$name" || return 0
  [ ! -f "$run/$name.log" ] || mv "$run/$name.log" "$run/$name.log.old"
  # fd 8 is the lock of rig.sh, which a node must not hold.
  setsid nsenter --net="/run/netns/$netns" "$@" > "$run/$name.log" 2>&1 < /dev/null 8>&- &
  pid=$!
  disown
  echo "$pid $(started $pid)" > "$run/$name.pid"
}
stop() { # NAME: SIGTERM, and SIGKILL if that does not help within 10 s
  local pid start i
  if alive "$1"; then
    read -r pid start < "$run/$1.pid"
    kill -TERM "$pid"
    for i in $(seq 200); do
      alive "$1" || break
      sleep 0.05
    done
    ! alive "$1" || kill -KILL "$pid"
    while alive "$1"; do
      sleep 0.05
    done
  fi
  rm -f "$run/$1.pid"
}
# The processes of the node, by the pids of this machine.
node_pids() { # NODE
  find "/sys/fs/cgroup/cpu/$cgroup/$1" -name cgroup.procs -exec cat {} + 2> /dev/null || true
}
# Processes whose program or first argument ends in NAME. apid and trustd are machined under another name.
pids_of() { # NODE NAME
  local pid
  for pid in $(node_pids "$1"); do
    if [ "$(tr '\0' '\n' 2> /dev/null < "/proc/$pid/cmdline" | head -n 1 | sed 's|.*/||')" = "$2" ]; then
      echo "$pid"
    fi
  done
}

# ---- network ---------------------------------------------------------------------------------------------------------
# A switch (bridge) in a separate namespace, and one namespace per node. Nothing outside is changed or reachable.
net_up() {
  [ -e "/run/netns/$net" ] || ip netns add "$net"
  ip -n "$net" link set lo up
  ip -n "$net" link show br0 > /dev/null 2>&1 || ip -n "$net" link add br0 type bridge
  ip -n "$net" addr replace "$E2E_SUBNET.1/24" dev br0
  ip -n "$net" link set br0 up
  nsenter --net="/run/netns/$net" sysctl -qw net.ipv4.ip_forward=1
}
node_net_up() { # NODE
  local ns=$E2E_NAME-$1
  [ -e "/run/netns/$ns" ] || ip netns add "$ns"
  ip -n "$ns" link show eth0 > /dev/null 2>&1 ||
    ip link add eth0 netns "$ns" type veth peer name "$ns" netns "$net"
  ip -n "$net" link set "$ns" master br0
  ip -n "$net" link set "$ns" up
  ip -n "$ns" link set lo up
  ip -n "$ns" link set eth0 up
  ip -n "$ns" addr replace "$(node_ip "$1")/24" dev eth0
  ip -n "$ns" route replace default via "$E2E_SUBNET.1"
}
netns_down() { # NETNS: its interfaces go with it
  [ ! -e "/run/netns/$1" ] || ip netns del "$1"
}

# ---- nodes -----------------------------------------------------------------------------------------------------------
unconfigured() { # NODE: boots without a machine config, into maintenance mode
  [ "$1" = m1 ] || [ -e "$disks/$1/unconfigured" ]
}
# By default, all nodes together weigh as much as one process, regardless of its niceness, and starve on a busy machine.
weigh_nodes() { # as eight processes that are as nice as the caller
  mkdir -p "/sys/fs/cgroup/cpu/$cgroup"
  awk -v nice="$(nice)" 'BEGIN { printf "%d", 8 * 1024 / 1.25 ^ nice }' > "/sys/fs/cgroup/cpu/$cgroup/cpu.shares"
}
node_up() { # NODE VERSION [CONFIG]: boots it with this version of Talos, unless it runs
  local node=$1 ip disk=$disks/$1 config=${3:-$cfg/$1.yaml} userdata=()
  ip=$(node_ip "$node")
  ! alive "$node" || return 0
  mkdir -p "$disk"
  node_net_up "$node"
  weigh_nodes
  echo "$node" > "$disk/hostname"
  printf '127.0.0.1 localhost\n%s %s\n' "$ip" "$node" > "$disk/hosts"
  echo "nameserver $E2E_SUBNET.1" > "$disk/resolv.conf"
  unconfigured "$node" || userdata=(-userdata "$config")
  launch "$node" "$E2E_NAME-$node" "$bin/talosnode" run -parent "$cgroup" -name "$node" \
    -rootfs "$(rootfs_of "$2")" -state "$disk" -pidfile "$run/$node.init" "${userdata[@]}"
}
node_down() { # NODE: as if the power went; the disk stays
  stop "$1"
  [ ! -x "$bin/talosnode" ] || "$bin/talosnode" clean -parent "$cgroup" -name "$1"
  rm -f "$run/$1.init"
  # The kernel takes its time to delete a namespace; the cable has to be gone before the node boots again.
  ip -n "$net" link del "$E2E_NAME-$1" 2> /dev/null || true
  netns_down "$E2E_NAME-$1"
}
node_wipe() { # NODE
  node_down "$1"
  # Never delete through a mount. Mounts only exist in the node's own mount namespace, which is gone.
  ! grep -qF " $disks/$1" /proc/self/mountinfo || die "$disks/$1 is still mounted"
  rm -rf "${disks:?}/$1"
}
node_running() { # NODE or die
  alive "$1" || die "node $1 does not run"
}
wait_apid() { # NODE
  local i
  for i in $(seq 120); do
    alive "$1" || die "node $1 ended: $(tail -n 1 "$run/$1.log")"
    # Without a config, no client has a certificate, and any client may query the node.
    if unconfigured "$1"; then
      ! LIMIT=3 talosctl -n "$(node_ip "$1")" get machinestatus --insecure > /dev/null 2>&1 || return 0
    else
      ! LIMIT=3 on_node "$1" version > /dev/null 2>&1 || return 0
    fi
    sleep 0.5
  done
  die "apid of $1 does not answer; see $run/$1.log"
}
