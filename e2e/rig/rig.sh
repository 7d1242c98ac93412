#!/bin/bash
# A real Talos cluster on one Linux machine: machined as PID 1 of namespaces of its own, real etcd, kubelet, Kubernetes,
# flannel, coredns. No container engine, no VM, nothing outside of the rig's network namespaces. Root.
#
#   rig.sh setup               installs the Debian packages that are missing and builds what is missing
#   rig.sh up [single|pair|ha|even] one control plane; two and a worker; (default) three and a worker; four. Idempotent. Environment:
#                              TALOS=1.14.1 version, CNI=flannel|none, NOPROXY=true NODNS=true NODISC=true leave out
#                              kube-proxy, coredns, discovery service; BOOTSTRAP=0 leaves etcd unbootstrapped,
#                              CONFIGURE=0 new nodes in maintenance mode, until the next `up`,
#                              WAIT=0 does not wait for `talosctl health`, HEALTH_TIMEOUT=10m
#   rig.sh status              processes, memory, what Talos, etcd and Kubernetes say
#   rig.sh talosctl ARG...     talosctl of the rig's version, as os:admin
#   rig.sh kubectl ARG...      as cluster-admin
#   rig.sh exec CMD...         any command inside the rig's network, with TALOSCONFIG and KUBECONFIG set (the same rights)
#   rig.sh talosconfig ROLE    prints a talosconfig with that role: os:reader, os:operator, os:admin; or, as os:reader, one
#                              that is of no use: expired, no-client-auth, other-ca
#   rig.sh kubeconfig NAME MANIFEST  prints a kubeconfig of ServiceAccount NAME in kube-system with no other rights than the
#                              ClusterRoles and Roles of MANIFEST, which it applies
#   rig.sh foreign up|down     a second Kubernetes cluster (an API server and an etcd, CA and Nodes of its own) on the
#                              switch's address; up prints its kubeconfig
#   rig.sh node up|down|wipe NAME    boots a node; cuts its power; cuts its power and deletes its disk
#   rig.sh node up NAME VERSION      boots it with another version of Talos than the others have
#   rig.sh down [keep]         stops everything and deletes the cluster (keep: the next `up` boots the same cluster)
#
# Programs: $E2E_CACHE/bin, state: $E2E_CACHE/rig/$E2E_NAME; E2E_CACHE is ${XDG_CACHE_HOME:-~/.cache}/cluster-health by
# default. Several rigs at once: each needs an E2E_NAME (default ch); E2E_SUBNET (default 10.55.0) is theirs alone anyway.

# Names and addresses of machines are words.
# shellcheck disable=SC2046
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Settings that the kubelet and machined change for the whole machine, not for a namespace. The first rig stores the original values, and
# the last one restores them; this is shared by all rigs of the machine, so it is in /run.
sysctls="kernel.panic kernel.panic_on_oops kernel.pid_max kernel.keys.root_maxkeys kernel.keys.root_maxbytes
  vm.overcommit_memory vm.panic_on_oom vm.max_map_count fs.file-max fs.inotify.max_user_watches
  fs.inotify.max_user_instances"
shared=/run/cluster-health-e2e
packages="busybox-static conntrack iptables nftables iproute2 util-linux procps openssl python3 ca-certificates"
build_packages="gcc libc6-dev libseccomp-dev pkg-config"

# ---- prerequisites ---------------------------------------------------------------------------------------------------
missing_packages() { # PACKAGE...
  local p
  for p in "$@"; do
    dpkg -s "$p" > /dev/null 2>&1 || printf ' %s' "$p"
  done
}

need_machine() {
  [ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || die "only Linux on x86_64 was ever tried"
  [ "$(id -u)" = 0 ] || die "root is needed (namespaces, mounts, cgroups): run it as root or with sudo -E"
  [ -d /sys/fs/cgroup/cpu ] || die "no cgroup v1 in /sys/fs/cgroup; cgroup v2 alone was never tried"
}

need_all() {
  local missing
  missing=$(missing_packages $packages)
  [ -z "$missing" ] || die "Debian packages are missing:$missing. '$0 setup' installs them"
  need_programs "$TALOS"
}
need_programs() { # VERSION of Talos
  local missing
  missing=$(TALOS=$1 "$here/build.sh" missing)
  [ -z "$missing" ] || die "not built: $(echo $missing). 'TALOS=$1 $here/build.sh' builds them"
}

setup() {
  local missing programs
  command -v dpkg > /dev/null && command -v apt-get > /dev/null ||
    die "no dpkg and apt-get: only Debian and Ubuntu were ever tried. Wanted: $packages $build_packages"
  missing=$(missing_packages $packages)
  programs=$("$here/build.sh" missing)
  if [ -n "$programs" ]; then
    missing+=$(missing_packages $build_packages)
    command -v go > /dev/null || die "Go is not in PATH; Go $(pinned GO_MIN) or newer is needed to build the rig's programs"
  fi
  if [ -n "$missing" ]; then
    echo "installing:$missing"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > /dev/null ||
      die "apt-get could not install:$missing"
  fi
  if [ -n "$programs" ]; then "$here/build.sh" $programs; fi
  echo "all programs are built"
}

# ---- machine-wide settings -------------------------------------------------------------------------------------------
sysctls_save() {
  mkdir -p "$shared/users"
  (
    flock 7
    if [ -z "$(ls "$shared/users")" ]; then
      sysctl $sysctls > "$shared/sysctls"
    fi
    touch "$shared/users/$E2E_NAME"
  ) 7> "$shared/lock"
}
sysctls_restore() {
  [ -e "$shared/users/$E2E_NAME" ] || return 0
  (
    flock 7
    rm "$shared/users/$E2E_NAME"
    if [ -z "$(ls "$shared/users")" ]; then
      sysctl -q -p "$shared/sysctls"
      rm -r "$shared"
    fi
  ) 7> "$shared/lock"
}

# ---- root file system ------------------------------------------------------------------------------------------------
# The parts of Talos's own image that container mode needs. All nodes of a version share it, read-only.
rootfs() { # VERSION
  local r source=$E2E_CACHE/src/talos-$1 d l
  r=$(rootfs_of "$1")
  [ -d "$source/hack" ] || die "no Talos sources in $source; delete $E2E_CACHE/stamps/machined* and run '$0 setup'"
  rm -rf "$r"
  mkdir -p "$r"/{dev,proc,sys,run,tmp,var,root,mnt,system,opt,.extra,home,media,srv,boot/EFI}
  mkdir -p "$r"/usr/{bin,lib,etc,share/spdx,share/zoneinfo/Etc,local/bin,local/share,libexec/kubernetes}
  mkdir -p "$r"/usr/lib/{firmware,modules,systemd/network,udev/rules.d} "$r"/usr/local/lib/kubelet/credentialproviders
  mkdir -p "$r"/etc/{iscsi,nvme,cri/conf.d/hosts,kubernetes/manifests,cni/net.d,ssl/certs,containerd,lvm}
  mkdir -p "$r"/etc/selinux/targeted/contexts/files "$r"/opt/{containerd/bin,containerd/lib,cni/bin}
  chmod 1777 "$r/tmp"
  ln -s bin "$r/usr/sbin"
  ln -s lib "$r/usr/lib64"
  for d in bin lib; do
    ln -s usr/$d "$r/$d"
  done
  ln -s usr/bin "$r/sbin"
  ln -s usr/lib "$r/lib64"

  install -m 0755 "$bin/machined$(suffix_of TALOS "$1")" "$r/usr/bin/init"
  for l in poweroff shutdown dashboard; do
    ln "$r/usr/bin/init" "$r/usr/bin/$l"
  done
  install -m 0755 "$bin/containerd" "$bin/containerd-shim-runc-v2" "$r/usr/bin/"
  install -m 0755 "$bin/runc" "$r/usr/bin/runc.real"
  install -m 0755 "$bin/runcwrap" "$r/usr/bin/runc"
  install -m 0755 "$bin"/{bridge,loopback,ptp,host-local,portmap} "$r/opt/cni/bin/"
  install -m 0755 "$bin/flannel-cni" "$r/opt/cni/bin/flannel"

  install -m 0644 "$source/hack/zoneinfo/Etc/UTC" "$r/usr/share/zoneinfo/Etc/UTC"
  install -m 0644 "$source/hack/nfsmount.conf" "$r/etc/nfsmount.conf"
  install -m 0644 "$source/hack/containerd.toml" "$r/etc/containerd/config.toml"
  install -m 0644 "$source/hack/cri-containerd.toml" "$r/etc/cri/containerd.toml"
  install -m 0644 "$source/hack/cri-plugin.part" "$r/etc/cri/conf.d/00-base.part"
  install -m 0644 "$source/hack/lvm.conf" "$r/etc/lvm/lvm.conf"
  install -m 0644 "$source/pkg/machinery/version/os-release" "$r/etc/os-release"
  ln -s /usr/share/zoneinfo/Etc/UTC "$r/etc/localtime"
  # Files over which Talos mounts its own
  touch "$r"/etc/{extensions.yaml,resolv.conf,hosts,hostname,machine-id,iscsi/initiatorname.iscsi,nvme/hostid,nvme/hostnqn}
  touch "$r"/etc/cri/conf.d/{cri.toml,01-registries.part,20-customization.part,base-spec.json}
  touch "$r/etc/selinux/targeted/contexts/files/file_contexts"
  cp /etc/ssl/certs/ca-certificates.crt "$r/etc/ssl/certs/ca-certificates.crt"
  ln -s ca-certificates.crt "$r/etc/ssl/certs/ca-certificates"
  for l in etc/pki etc/ca-certificates usr/share/ca-certificates usr/local/share/ca-certificates; do
    ln -s /etc/ssl "$r/$l"
  done
  echo true > "$r/usr/etc/in-container" # Talos's own mark of container mode
  echo 'root:x:0:0:root:/root:/bin/false' > "$r/etc/passwd"
  echo 'root:x:0:' > "$r/etc/group"
}

# ---- images and discovery --------------------------------------------------------------------------------------------
services_up() {
  local i
  python3 "$here/images.py" "$bin" "$(rootfs_of "$TALOS")" "$KUBERNETES" "$(pinned COREDNS)" "$(pinned ETCD)" \
    "$("$here/build.sh" with)" > "$run/images.json"
  launch registry "$net" "$bin/ociserve" -addr "$E2E_SUBNET.1:5000" -specs "$run/images.json" -dir "$state/registry"
  [ "$NODISC" = true ] || launch discovery "$net" "$bin/labdiscovery" "$E2E_SUBNET.1:3000"
  for i in $(seq 240); do
    ! grep -q '^READY' "$run/registry.log" || return 0
    alive registry || die "the image registry ended: $(tail -n 1 "$run/registry.log")"
    sleep 0.5
  done
  die "the image registry is not ready; see $run/registry.log"
}

# ---- machine configs -------------------------------------------------------------------------------------------------
patch_all() {
  cat << Y
machine:
  kubelet:
    extraConfig:
      failCgroupV1: false # the kubelet refuses cgroup v1 from 1.35 on
      evictionHard: # the disk is this machine's, and how full that is, is not the cluster's business
        imagefs.available: 1Gi
        imagefs.inodesFree: 1%
        memory.available: 50Mi
        nodefs.available: 1Gi
        nodefs.inodesFree: 1%
  features:
    hostDNS:
      enabled: true
      forwardKubeDNSToHost: true
cluster:
  network:
    cni:
      name: $CNI
  proxy:
    disabled: $NOPROXY
  discovery:
    enabled: true
    registries:
      kubernetes:
        disabled: true
      service:
        disabled: $NODISC
        endpoint: http://$E2E_SUBNET.1:3000/
Y
  local host
  for host in ghcr.io registry.k8s.io docker.io gcr.io; do # all images come from the rig's own registry
    cat << Y
---
apiVersion: v1alpha1
kind: RegistryMirrorConfig
name: $host
endpoints:
  - url: http://$E2E_SUBNET.1:5000
skipFallback: true
Y
  done
}

patch_control_plane() {
  cat << Y
cluster:
  allowSchedulingOnControlPlanes: true
  coreDNS:
    disabled: $NODNS
    image: registry.k8s.io/coredns/coredns:v$(pinned COREDNS)
  etcd:
    image: registry.k8s.io/etcd:v$ETCD
Y
}

configs() {
  local minor=v${TALOS%.*} node kind
  # Talos 1.14 would write documents of its own for what the patches and the faults change; it accepts the configuration of 1.13 as well.
  [ "$minor" != v1.14 ] || minor=v1.13
  mkdir -p "$cfg/new"
  [ -f "$cfg/secrets.yaml" ] || talosctl gen secrets -o "$cfg/secrets.yaml" --talos-version "$minor" 2> /dev/null
  patch_all > "$cfg/patch-all.yaml"
  patch_control_plane > "$cfg/patch-control-plane.yaml"
  talosctl gen config "$E2E_NAME" "https://$(node_ip cp1):6443" --force -o "$cfg/new" --with-secrets "$cfg/secrets.yaml" \
    --talos-version "$minor" --kubernetes-version "$KUBERNETES" --with-docs=false --with-examples=false \
    --additional-sans "$E2E_SUBNET.1,127.0.0.1,$(ips $(control_planes))" --config-patch "@$cfg/patch-all.yaml" \
    --config-patch-control-plane "@$cfg/patch-control-plane.yaml" 2> "$run/gen-config.log" ||
    die "talosctl gen config: $(cat "$run/gen-config.log")"
  for node in $nodes; do
    kind=worker
    [[ $node != cp* ]] || kind=controlplane
    printf 'apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: %s\nauto: off\n' "$node" > "$cfg/patch-$node.yaml"
    talosctl machineconfig patch "$cfg/new/$kind.yaml" --patch "@$cfg/patch-$node.yaml" -o "$cfg/$node.yaml"
    talosctl validate -c "$cfg/$node.yaml" -m container > "$run/validate.log" 2>&1 || die "$(cat "$run/validate.log")"
  done
  talosctl --talosconfig "$cfg/new/talosconfig" config endpoint $(for node in $(control_planes); do node_ip "$node"; done)
  talosctl --talosconfig "$cfg/new/talosconfig" config node "$(node_ip cp1)"
  mv "$cfg/new/talosconfig" "$cfg/talosconfig" # last: `up` takes it as the sign that all of this was done
  rm -r "$cfg/new"
}

# CNI=none: Talos installs no network plugin, as for users who install Cilium. Pods get a bridge on their node, so that the node becomes
# Ready; there are no routes between nodes. Since Talos 1.14, this directory is in memory, and empty after each boot.
cni_bridge() { # NODE
  local dir subnet
  [ "$CNI" = none ] || return 0
  dir=/proc/$(cat "$run/$1.init")/root/etc/cni/net.d
  subnet=10.244.$(node_ip "$1" | cut -d. -f4).0/24
  mkdir -p "$dir"
  cat > "$dir/10-rig.conflist" << J
{"cniVersion": "1.0.0", "name": "rig", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$subnet"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
J
}

# ---- credentials -----------------------------------------------------------------------------------------------------
talosconfig() { # ROLE, or a kind of broken one
  local file
  case $1 in
    expired | no-client-auth | other-ca)
      bad_talosconfig "$1"
      return ;;
  esac
  file=$(mktemp -u "$cfg/role.XXXXXX")
  on_node cp1 config new --roles "$1" --crt-ttl 24h "$file" 1>&2
  talosctl --talosconfig "$file" config endpoint $(for node in $(control_planes); do node_ip "$node"; done) 1>&2
  talosctl --talosconfig "$file" config node "$(node_ip cp1)" 1>&2
  cat "$file"
  rm -f "$file"
}

# Credentials for os:reader, signed by the cluster's own CA or, as in another cluster, by an unknown one.
bad_talosconfig() { # expired|no-client-auth|other-ca
  local dir=$state/bad-talosconfig usage=clientAuth start=20200101000000Z end=20360101000000Z
  case $1 in
    expired) end=20210101000000Z ;;
    no-client-auth) usage=serverAuth ;;
  esac
  rm -rf "$dir"
  (
    umask 077
    mkdir -p "$dir/new"
    cd "$dir"
    python3 - "$cfg/secrets.yaml" << 'P'
import base64, re, sys
os_ca = re.search(r"^ +os:\n +crt: (\S+)\n +key: (\S+)", open(sys.argv[1]).read(), re.MULTILINE)
open("ca.crt", "wb").write(base64.b64decode(os_ca[1]))
# Talos names the algorithm in the PEM label, openssl does not.
open("ca.key", "wb").write(base64.b64decode(os_ca[2]).replace(b"ED25519 PRIVATE", b"PRIVATE"))
P
    [ "$1" != other-ca ] ||
      openssl req -x509 -newkey ed25519 -nodes -days 365 -subj /O=talos -keyout ca.key -out ca.crt
    openssl genpkey -algorithm ed25519 -out client.key
    openssl req -new -key client.key -subj /O=os:reader/CN=reader -out client.csr
    : > index
    printf '[ca]\ndefault_ca=c\n[c]\ndatabase=index\nnew_certs_dir=new\nrand_serial=yes\ndefault_md=default\npolicy=p\n[p]\nO=supplied\nCN=supplied\n[e]\nextendedKeyUsage=%s\nkeyUsage=digitalSignature\n' $usage > ca.conf
    openssl ca -batch -config ca.conf -cert ca.crt -keyfile ca.key -in client.csr -out client.crt -notext -extensions e \
      -startdate $start -enddate $end
  ) > "$run/bad-talosconfig.log" 2>&1 || die "openssl: $(tail -n 3 "$run/bad-talosconfig.log")"
  cat << Y
context: $1
contexts:
  $1:
    endpoints: [$(ips $(control_planes))]
    ca: $(base64 -w0 "$dir/ca.crt")
    crt: $(base64 -w0 "$dir/client.crt")
    key: $(sed 's/PRIVATE/ED25519 PRIVATE/' "$dir/client.key" | base64 -w0)
Y
  rm -rf "$dir"
}

kubeconfig() { # NAME MANIFEST
  local kind name namespace token field='{.clusters[0].cluster'
  kubectl apply -f "$2" 1>&2
  kubectl get serviceaccount -n kube-system "$1" > /dev/null 2>&1 || kubectl create serviceaccount -n kube-system "$1" 1>&2
  # A separate binding for each, so that the rights are the manifest's even if it contains no binding.
  while read -r kind name namespace; do
    case $kind in
      ClusterRole)
        kubectl create clusterrolebinding "$1-$name" --clusterrole "$name" --serviceaccount "kube-system:$1" \
          --dry-run=client -o yaml ;;
      Role)
        kubectl create rolebinding -n "$namespace" "$1-$name" --role "$name" --serviceaccount "kube-system:$1" \
          --dry-run=client -o yaml ;;
    esac
    echo ---
  done < <(kubectl get -f "$2" -o 'custom-columns=:kind,:metadata.name,:metadata.namespace' --no-headers) |
    kubectl apply -f - 1>&2
  token=$(kubectl create token -n kube-system "$1" --duration 24h)
  print_kubeconfig "$1" "$(kubectl config view --raw -o "jsonpath=$field.server}")" \
    "$(kubectl config view --raw -o "jsonpath=$field.certificate-authority-data}")" "token: $token"
}

# ---- another cluster -------------------------------------------------------------------------------------------------
# Real and complete enough to be mistaken for the right one: own CA, own Nodes, /readyz is 200.
foreign_pki() { # DIR
  (
    umask 077
    mkdir -p "$1"
    cd "$1"
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj /CN=kubernetes -keyout ca.key -out ca.crt
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -CA ca.crt -CAkey ca.key -subj /CN=kube-apiserver \
      -addext "subjectAltName=IP:$E2E_SUBNET.1" -addext basicConstraints=CA:false -addext extendedKeyUsage=serverAuth \
      -keyout apiserver.key -out apiserver.crt
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -CA ca.crt -CAkey ca.key -subj /O=system:masters/CN=admin \
      -addext basicConstraints=CA:false -addext extendedKeyUsage=clientAuth -keyout admin.key -out admin.crt
    openssl genrsa -out sa.key 2048
  ) > "$run/foreign-pki.log" 2>&1 || die "openssl: $(tail -n 3 "$run/foreign-pki.log")"
}

foreign_up() {
  local dir=$state/foreign i node
  [ -f "$dir/sa.key" ] || foreign_pki "$dir"
  launch foreign-etcd "$net" "$bin/etcd" --data-dir "$dir/etcd" --listen-client-urls http://127.0.0.1:12379 \
    --advertise-client-urls http://127.0.0.1:12379 --listen-peer-urls http://127.0.0.1:12380
  launch foreign-apiserver "$net" "$bin/kube-apiserver" --etcd-servers http://127.0.0.1:12379 \
    --bind-address "$E2E_SUBNET.1" --advertise-address "$E2E_SUBNET.1" --secure-port 6443 --anonymous-auth=false \
    --tls-cert-file "$dir/apiserver.crt" --tls-private-key-file "$dir/apiserver.key" --client-ca-file "$dir/ca.crt" \
    --service-account-issuer https://foreign.invalid --service-account-key-file "$dir/sa.key" \
    --service-account-signing-key-file "$dir/sa.key" --service-cluster-ip-range 10.96.0.0/12 \
    --authorization-mode Node,RBAC
  (umask 077 && print_kubeconfig foreign "https://$E2E_SUBNET.1:6443" "$(base64 -w0 "$dir/ca.crt")" \
    "client-certificate-data: $(base64 -w0 "$dir/admin.crt"), client-key-data: $(base64 -w0 "$dir/admin.key")" > "$dir/kubeconfig")
  for i in $(seq 120); do
    ! LIMIT=5 in_rig kubectl --kubeconfig "$dir/kubeconfig" get --raw /readyz > /dev/null 2>&1 || break
    alive foreign-apiserver || die "the foreign API server ended: $(tail -n 1 "$run/foreign-apiserver.log")"
    sleep 0.5
  done
  for node in 1 2; do
    cat << Y
apiVersion: v1
kind: Node
metadata: {name: other-$node}
status:
  addresses: [{type: InternalIP, address: 10.99.0.$node}, {type: Hostname, address: other-$node}]
  conditions: [{type: Ready, status: "True", reason: KubeletReady, message: kubelet is posting ready status}]
---
Y
  done | in_rig kubectl --kubeconfig "$dir/kubeconfig" apply -f - 1>&2
  cat "$dir/kubeconfig"
}

foreign_down() {
  stop foreign-apiserver
  stop foreign-etcd
  rm -rf "${state:?}/foreign"
}

# ---- commands --------------------------------------------------------------------------------------------------------
any_node_alive() {
  local node
  for node in $all_nodes; do
    ! alive "$node" || return 0
  done
  return 1
}

configure() {
  local node configured=''
  for node in $nodes; do
    [ -e "$disks/$node/unconfigured" ] || continue
    talosctl -n "$(node_ip "$node")" apply-config --insecure -f "$cfg/$node.yaml"
    rm "$disks/$node/unconfigured"
    configured+=" $node"
  done
  for node in $configured; do
    wait_apid "$node"
  done
  [ -z "$configured" ] || log "configured:$configured"
}

bootstrap() {
  local answer
  for _ in $(seq 90); do
    ! LIMIT=3 on_node cp1 etcd members > /dev/null 2>&1 || return 0
    if answer=$(LIMIT=5 on_node cp1 bootstrap 2>&1); then
      log "bootstrap requested"
      return
    fi
    [[ $answer != *AlreadyExists* ]] || return 0
    sleep 1
  done
  die "bootstrap: $answer"
}

health() {
  local expected=()
  if [ "$NODISC" = true ]; then # without discovery talosctl has to be told what nodes there are
    expected=(--control-plane-nodes "$(ips $(control_planes))")
    [[ $nodes != *w1* ]] || expected+=(--worker-nodes "$(node_ip w1)")
  fi
  talosctl -n "$(node_ip cp1)" health --wait-timeout "${HEALTH_TIMEOUT:-10m}" "${expected[@]}" > "$run/health.log" 2>&1 ||
    die "talosctl health: $(tail -n 3 "$run/health.log")"
  log "talosctl health passed"
}

up() {
  local node
  defaults
  need_all
  if [ -f "$state/settings" ] && ! settings_text | cmp -s - "$state/settings"; then
    die "rig '$E2E_NAME' exists with other settings; '$0 down' first:
$(settings_text | diff "$state/settings" - | grep '^[<>]')"
  fi
  (umask 077 && mkdir -p "$cfg" "$run" "$disks" "$state/bin" "$state/registry")
  settings_text > "$state/settings"
  ln -sfn "$bin/talosctl$suffix" "$state/bin/talosctl"
  ln -sfn "$bin/kubectl" "$state/bin/kubectl"
  sysctls_save
  # A root file system in use must stay: deleting a directory detaches everything mounted on it, in every namespace.
  any_node_alive || rootfs "$TALOS"
  net_up
  services_up
  log "image registry is ready"
  [ -f "$cfg/talosconfig" ] || configs
  for node in $nodes; do
    if [ "${CONFIGURE:-1}" = 0 ] && [ ! -e "$disks/$node" ]; then
      mkdir -p "$disks/$node"
      touch "$disks/$node/unconfigured"
    fi
    node_up "$node" "$TALOS"
  done
  for node in $nodes; do
    wait_apid "$node"
    cni_bridge "$node"
  done
  log "apid answers on: $(echo $nodes)"
  if [ "${CONFIGURE:-1}" = 0 ]; then
    log "up, not configured"
    return
  fi
  configure
  [ -f "$cfg/kubeconfig" ] ||
    LIMIT=20 on_node cp1 kubeconfig "$cfg/kubeconfig" --force --merge=false ||
    echo "no kubeconfig yet; the next '$0 up' tries again" >&2
  if [ "${BOOTSTRAP:-1}" = 0 ]; then
    log "up, not bootstrapped"
    return
  fi
  bootstrap
  if [ "${WAIT:-1}" != 0 ]; then health; fi
  log "up: $0 talosctl ..., $0 kubectl ..., $0 exec ..."
}

# Does as much as possible in any state; reports failures to the caller at the end.
down() { # [keep]
  local node failed=''
  for node in $all_nodes; do
    if [ "${1:-}" = keep ]; then (node_down "$node") || failed+=" $node"; else (node_wipe "$node") || failed+=" $node"; fi
  done
  foreign_down
  stop registry
  stop discovery
  if [ -e "/run/netns/$net" ] && [ -n "$(ip netns pids "$net")" ]; then
    echo "still running inside the rig, started by 'exec': $(ip netns pids "$net" | xargs)" >&2
  fi
  netns_down "$net"
  sysctls_restore
  [ -z "$failed" ] || die "could not stop:$failed"
  if [ "${1:-}" != keep ]; then
    rm -rf "$cfg" "$disks" "$state"/rootfs* "$state/registry" "${state:?}/bin" "$state/settings" "$run"/*.json \
      "$run/kube-cache" "$state/work" # e2e/run keeps credentials there
  fi
}

row() { # NAME
  local pid start rss=0 p
  if ! alive "$1"; then
    printf '%-10s stopped\n' "$1"
    return
  fi
  read -r pid start < "$run/$1.pid"
  for p in $pid $(node_pids "$1"); do
    rss=$((rss + $(awk '/^RssAnon/ { print $2 }' "/proc/$p/status" 2> /dev/null || echo 0)))
  done
  printf '%-10s pid %-7s %5d MiB anonymous memory\n' "$1" "$pid" $((rss / 1024))
}

status() {
  local name
  echo "rig '$E2E_NAME' ($MODE): Talos $TALOS, Kubernetes $KUBERNETES, etcd $ETCD, CNI $CNI, in $state"
  for name in registry discovery $nodes; do
    row "$name"
  done
  ! alive m1 || row m1
  for name in $nodes; do
    if alive "$name"; then
      LIMIT=5 on_node "$name" get machinestatus 2>&1 | tail -n +2 | head -n 1 || true
    fi
  done
  LIMIT=10 talosctl -n "$(ips $(control_planes))" etcd status 2>&1 || true
  LIMIT=10 kubectl get nodes 2>&1 || true
  LIMIT=10 kubectl get pods -A --no-headers 2>&1 | awk '{ print "pods", $4 }' | sort | uniq -c || true
}

lock() { # one command at a time may change the rig
  mkdir -p "$state"
  exec 8> "$state/lock"
  flock -w 10 8 || die "another rig.sh is at work on rig '$E2E_NAME'"
}

command=${1:-}
[ $# = 0 ] || shift
case $command in
  up | down | setup | status | talosctl | kubectl | exec | talosconfig | kubeconfig | foreign | node) need_machine ;;
  *)
    sed -n '2,24p' "$0"
    exit 2 ;;
esac
case $command in
  setup)
    setup
    exit ;;
  up)
    lock
    [ $# = 0 ] || MODE=$1
    # Settings that the caller did not give are taken from the existing cluster.
    [ ! -f "$state/settings" ] || . "$state/settings"
    up
    exit ;;
  down)
    lock
    down "$@"
    exit ;;
esac
remembered
case $command in
  status) status ;;
  talosctl) TALOSCONFIG=$cfg/talosconfig exec_in_rig talosctl "$@" ;;
  kubectl) KUBECONFIG=$cfg/kubeconfig exec_in_rig kubectl "$@" ;;
  exec)
    [ $# -gt 0 ] || die "exec: no command"
    TALOSCONFIG=$cfg/talosconfig KUBECONFIG=$cfg/kubeconfig exec_in_rig "$@" ;;
  talosconfig)
    [ $# = 1 ] || die "usage: rig.sh talosconfig ROLE"
    talosconfig "$1" ;;
  kubeconfig)
    [ $# = 2 ] && [ -f "$2" ] || die "usage: rig.sh kubeconfig NAME MANIFEST"
    kubeconfig "$1" "$2" ;;
  foreign)
    lock
    case ${1:-} in
      up) foreign_up ;;
      down) foreign_down ;;
      *) die "usage: rig.sh foreign up|down" ;;
    esac ;;
  node)
    lock
    [ $# = 2 ] || { [ $# = 3 ] && [ "$1" = up ]; } || die "usage: rig.sh node up|down|wipe NAME"
    node_ip "$2" > /dev/null
    [[ " $nodes m1 " == *" $2 "* ]] || die "no node '$2' in this rig; there are $nodes"
    case $1 in
      up)
        if [ $# = 3 ] && [ ! -d "$(rootfs_of "$3")" ]; then
          need_programs "$3"
          rootfs "$3"
        fi
        node_up "$2" "${3:-$TALOS}"
        wait_apid "$2"
        cni_bridge "$2" ;;
      down) node_down "$2" ;;
      wipe) node_wipe "$2" ;;
      *) die "usage: rig.sh node up|down|wipe NAME" ;;
    esac ;;
esac
