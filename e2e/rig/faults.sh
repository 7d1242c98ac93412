#!/bin/bash
# Real, reversible faults on a running Talos rig (up ha).
#
#   faults.sh list
#   faults.sh NAME on|off [NODE]
#
# `on` returns when the cause is there; what it leads to can take a while (see the list). More than one at a time is
# allowed. `off` undoes the cause and returns; wait with `rig.sh talosctl health`.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# NAME|default NODE|the action, and its consequences
faults() {
  cat << 'E'
scheduler-broken|cp3|static pod gets an unknown flag by machine config: CrashLoopBackOff after about 20 s
controller-manager-broken|cp3|the same for the controller manager
apiserver-broken|cp3|the same for the API server
kubelet-crash|cp2|kubelet gets an unknown flag: service restarts for ever, node NotReady after about 45 s
cordon|w1|node is cordoned; Talos notices (NodeStatus), talosctl health fails
node-down|cp3|power cut; the address answers "no route to host" after 3 s. off boots it with its old disk
node-unplugged|cp3|network cable pulled: packets vanish, calls hang until their deadline. No RST, no ICMP
node-frozen|cp3|machined (PID 1) is stopped by SIGSTOP: apid accepts, every call hangs; containers go on
apid-frozen|cp3|apid is stopped by SIGSTOP: port 50000 connects, TLS never answers
etcd-frozen|cp3|etcd is stopped by SIGSTOP: the member is lost while its process and service live
kubelet-frozen|w1|kubelet is stopped by SIGSTOP: lease ends, node NotReady (Unknown) after about 45 s
apiserver-frozen|cp3|kube-apiserver is stopped by SIGSTOP: port 6443 connects, no answer; pods and nodes stay Ready
etcd-removed|cp3|member is removed by `talosctl etcd remove-member`. off wipes the node and boots it: joins anew
nospace-alarm|cp1|NOSPACE alarm for this node's member through etcd's API: real answers, the disk is not full
corrupt-alarm|cp1|CORRUPT alarm, likewise
controller-manager-disabled|cp3|by machine configuration, on this node alone: no fault
scheduler-disabled|cp3|the same for the scheduler
beta-api|cp2|kube-apiserver of this node alone serves a beta API that Kubernetes 1.37 no longer has: no fault
custom-pod|w1|a static pod of the user's own, healthy: no fault
custom-pod-broken|w1|the same with an unknown flag: CrashLoopBackOff after about 20 s
kubelet-image|w1|kubelet of a version that does not exist: Talos cannot pull it, the service stays in Preparing
kubelet-csr|cp3|kubelet asks for a serving certificate that nobody approves: Talos reads no static pod statuses any more
etcd-broken|cp3|etcd gets an unknown flag, and the node is rebooted, since Talos leaves a running etcd alone: it restarts for ever
learner|cp1|a learner is added that never starts
unstarted-member|cp1|a voter is added that never starts
dns-scaled-to-zero|-|coredns is scaled to no replica
dns-on|w1|all pods of coredns on this node: no fault
dns-broken|-|coredns gets an unknown flag, old pods go first
cni-missing|w1|CNI=none alone: the node's network configuration is taken away, NotReady within seconds
node-deleted|w1|its Node object is deleted; a kubelet registers once, when it starts. off restarts it
node-registered-anew|w1|its Node object is deleted, its kubelet registers again and gets another podCIDR; flannel follows, cni0 keeps the old address: no pod with a network of its own starts there (one that tries is made)
no-gateway|w1|the default route is gone: Talos says that there is no connectivity; nodes reach each other as before
trustd-filtered|cp2|port 50001 swallows what the node itself sends: Talos's own check of trustd fails
boot-blocked|w1|reboots with a kubelet that cannot be pulled: up to Talos 1.13, the boot waits for it for ever
older-talos|w1|reboots with Talos 1.13, as in the middle of an upgrade: no fault
newer-talos|cp3|on a rig of an older Talos: reboots with the one that is the default, and a control plane with its etcd, as in the middle of an upgrade: no fault. off is refused by etcd once all members have 3.7
extensions|w1|reboots with an image that says of itself that it has a system extension: no fault
api-filtered|cp2|port 6443 of the node swallows what comes from the switch, where the binary runs; nodes reach it
peers-filtered|cp3|port 2380 of the node swallows what comes and what it sends: etcd is cut off, all else goes on
lossy|-|a tenth of all packets between the nodes, and from the binary to them, is lost
cri-frozen|w1|containerd of the pods is stopped by SIGSTOP: pods go on, the kubelet says NotReady after about 3 min
leaders-frozen|-|controller managers and schedulers of all nodes are stopped by SIGSTOP: pods stay Ready, leases end
wrong-endpoint|w1|wiped, its Node deleted; boots with a cluster endpoint where nobody is, and without discovery, which would name others: never joins
wrong-token|w1|wiped, its Node deleted; boots with a bootstrap token that Kubernetes does not know
gone|cp3|its member removed, its Node deleted, wiped, off: as if it had never been there. off boots it, and it joins
renamed|cp3|another hostname by machine config: its kubelet registers a second Node at the same address
cni-image|-|kube-flannel of an image that nobody has, on all nodes at once; pods that have a network keep it
cni-crash|-|kube-flannel gets an unknown flag, on all nodes at once
manifest-added|-|an inline manifest is added to the machine config of all control planes: Talos applies it, no fault
manifest-dead|-|the same with an extra manifest whose URL refuses connections: Talos tries it again for ever
manifest-refused|-|the same with an inline manifest of a kind that Kubernetes does not know: likewise
maintenance|m1|one more node boots without a machine config: apid without mTLS, few calls work
E
}

restore() { # NODE: the machine config that `rig.sh up` made
  on_node "$1" apply-config -f "$cfg/$1.yaml" --mode no-reboot
}
patch() { # NODE JSON
  on_node "$1" patch mc --patch "$2" --mode no-reboot
}
bogus_flag() { # NODE COMPONENT
  patch "$1" "{\"cluster\": {\"$2\": {\"extraArgs\": {\"bogus-flag\": \"1\"}}}}"
}

restored_anew() { # NODE PROGRAM: as it was, and the program of before has gone
  local before tries=120
  before=$(pids_of "$1" "$2")
  restore "$1"
  while [ -n "$before" ] && [ "$(pids_of "$1" "$2")" = "$before" ]; do
    [ $((tries -= 1)) -gt 0 ] || die "$2 of $1 does not restart"
    sleep 0.5
  done
}

rig_node() { # up|down|wipe NODE
  "$here/rig.sh" node "$@"
}
signal() { # NODE PROGRAM SIGNAL
  local pids
  node_running "$1"
  pids=$(pids_of "$1" "$2")
  [ -n "$pids" ] || die "no $2 runs on $1"
  kill "-$3" $pids
}
cri() { # NODE SIGNAL: the containerd of the pods, beside that of Talos itself
  local pid
  node_running "$1"
  for pid in $(pids_of "$1" containerd); do
    if tr '\0' '\n' < "/proc/$pid/cmdline" | grep -qx /run/containerd/containerd.sock; then kill "-$2" "$pid"; fi
  done
}
init() { # NODE: its PID 1
  node_running "$1"
  cat "$run/$1.init"
}

member() { # NODE: id of its etcd member, hex
  on_node "$1" etcd status | awk 'NR == 2 { print $2 }'
}
alarm() { # nospace|corrupt activate|deactivate NODE
  local id secrets
  id=$(member "$3")
  [ -n "$id" ] || die "no etcd member on $3"
  secrets=/proc/$(init "$3")/root/system/secrets/etcd
  in_rig etcdalarm "$(node_ip "$3"):2379" "$secrets/ca.crt" "$secrets/admin.crt" "$secrets/admin.key" "$1" "$2" "$id"
}
etcd_removed_on() { # NODE: asked of another one, since a member does not remove itself
  local other
  other=$(control_planes | grep -vx "$1" | head -n 1)
  on_node "$other" etcd remove-member "$(member "$1")"
}

etcdctl_on() { # NODE ARG...
  local secrets
  secrets=/proc/$(init "$1")/root/system/secrets/etcd
  LIMIT=20 in_rig etcdctl --endpoints "$(node_ip "$1"):2379" --cacert "$secrets/ca.crt" --cert "$secrets/admin.crt" \
    --key "$secrets/admin.key" "${@:2}"
}
ghost_on() { # NODE [OPTION]: a member for an address where nobody is
  etcdctl_on "$1" member add ghost "${@:2}" --peer-urls "https://$E2E_SUBNET.9:2380"
}
ghost_off() { # NODE
  etcdctl_on "$1" member remove "$(etcdctl_on "$1" member list | awk -F', ' -v ip="$E2E_SUBNET.9" '$4 ~ ip { print $1 }')"
}

custom_pod() { # NODE COMMAND: its words, quoted
  patch "$1" "$(cat << J
{"machine": {"pods": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "custom", "namespace": "kube-system"},
  "spec": {"hostNetwork": true, "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "command": [$2]}]}}]}}
J
)"
}
cni_file() { # NODE
  echo "/proc/$(init "$1")/root/etc/cni/net.d/10-rig.conflist"
}
reboot() { # NODE [VERSION]: as if the power went for a moment; with this version of Talos
  rig_node down "$1"
  rig_node up "$@"
}
no_kubelet() { # NODE: one of a version that nobody has
  patch "$1" "{\"machine\": {\"kubelet\": {\"image\": \"ghcr.io/siderolabs/kubelet:v${KUBERNETES%.*}.99\"}}}"
}
local_filter() { # -I|-D NODE PORT: of what the node sends to itself
  ip netns exec "$E2E_NAME-$2" iptables "$1" INPUT -i lo -p tcp --dport "$3" -j DROP
}
filter() { # -I|-D NODE
  in_rig iptables "$1" OUTPUT -p tcp -d "$(node_ip "$2")" --dport 6443 -j DROP
}

peers() { # -I|-D NODE: etcd's own traffic
  local chain port
  for chain in INPUT OUTPUT; do
    for port in sport dport; do ip netns exec "$E2E_NAME-$2" iptables "$1" $chain -p tcp --$port 2380 -j DROP; done
  done
}
loss() { # -I|-D: on the way into each node
  local node
  for node in $nodes; do
    ip netns exec "$E2E_NAME-$node" iptables "$1" INPUT ! -i lo -m statistic --mode random --probability 0.1 -j DROP
  done
}
leaders() { # STOP|CONT
  local node program
  for node in $(control_planes); do
    for program in kube-controller-manager kube-scheduler; do signal "$node" $program "$1"; done
  done
}
never_was() { # NODE: nothing of it is left
  [[ $1 != cp* ]] || etcd_removed_on "$1"
  rig_node wipe "$1"
  kubectl delete node "$1"
}
joins_with() { # NODE PATCH: boots for the first time, with one thing wrong in its machine config
  never_was "$1"
  talosctl machineconfig patch "$cfg/$1.yaml" --patch "$2" -o "$cfg/$1-wrong.yaml"
  node_up "$1" "$TALOS" "$cfg/$1-wrong.yaml" # nobody waits for its apid, which may never answer
}
joins() { # NODE: as it should
  rm -f "$cfg/$1-wrong.yaml"
  rig_node wipe "$1"
  rig_node up "$1"
}
hostname_patch() { # NAME
  printf '{"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": "%s", "auto": "off"}' "$1"
}
flannel() { # JSON-PATCH-OPERATION: changes it on all nodes at once
  kubectl -n kube-system patch daemonset kube-flannel --type json -p "[$1,
    {\"op\": \"replace\", \"path\": \"/spec/updateStrategy\",
     \"value\": {\"type\": \"RollingUpdate\", \"rollingUpdate\": {\"maxUnavailable\": \"100%\"}}}]"
}

manifests_on() { # FIELD VALUE: added to those that are there
  local node
  for node in $(control_planes); do patch "$node" "{\"cluster\": {\"$1\": [$2]}}"; done
}
manifests_off() {
  local node
  for node in $(control_planes); do restore "$node"; done
}
manifest_applied() { # NAME: waits until all control planes say so. One that was refused before makes Talos wait up to a minute
  local node tries=180
  for node in $(control_planes); do
    until on_node "$node" get manifeststatuses -o yaml | grep -q -- "- $1\$"; do
      [ $((tries -= 1)) -gt 0 ] || die "$node does not apply the manifest $1"
      sleep 0.5
    done
  done
}
inline_manifest() { # NAME API-VERSION KIND
  printf '{"name": "%s", "contents": "apiVersion: %s\\nkind: %s\\nmetadata: {name: %s, namespace: kube-system}\\n"}' "$1" "$2" "$3" "$1"
}

registered_anew_on() { # NODE
  local before tries=60
  # A node on which no pod has had a separate network has no bridge yet, and its first pod creates one for the new podCIDR.
  kubectl run resident --image registry.k8s.io/pause:3.10 --overrides "{\"spec\": {\"nodeName\": \"$1\"}}"
  kubectl wait pod resident --for condition=Ready --timeout 60s
  before=$(kubectl get node "$1" -o 'jsonpath={.spec.podCIDR}')
  kubectl delete node "$1"
  on_node "$1" service kubelet restart
  until [ -n "$(kubectl get node "$1" --ignore-not-found -o 'jsonpath={.spec.podCIDR}')" ]; do
    [ $((tries -= 1)) -gt 0 ] || die "$1 does not register again"
    sleep 1
  done
  [ "$(kubectl get node "$1" -o 'jsonpath={.spec.podCIDR}')" != "$before" ] || die "$1 got the same podCIDR again"
  kubectl -n kube-system delete pod -l k8s-app=flannel --field-selector "spec.nodeName=$1"
  kubectl -n kube-system rollout status daemonset kube-flannel --timeout 60s
  kubectl run newcomer --image registry.k8s.io/pause:3.10 --overrides "{\"spec\": {\"nodeName\": \"$1\"}}"
}
registered_anew_off() { # NODE
  kubectl delete pod resident newcomer --ignore-not-found --wait=false
  ip -n "$E2E_NAME-$1" link delete cni0
  kubectl -n kube-system delete pod -l k8s-app=kube-dns --field-selector "spec.nodeName=$1" # their bridge is gone
}

dns_selector() { # NODE or null
  kubectl -n kube-system patch deployment coredns --type merge -p "{\"spec\": {\"template\": {\"spec\": {\"nodeSelector\": {\"kubernetes.io/hostname\": $1}}}}}"
  kubectl -n kube-system rollout status deployment coredns --timeout 90s
}

dns_is_on() { # NODE; waits until no pod elsewhere is left, not even one that is stopping
  local elsewhere
  for _ in $(seq 60); do
    elsewhere=$(kubectl -n kube-system get pods -l k8s-app=kube-dns -o name --field-selector "spec.nodeName!=$1") || elsewhere=unknown
    [ -n "$elsewhere" ] || return 0
    sleep 1
  done
  die "coredns still runs elsewhere after 60 s: $elsewhere"
}

name=${1:-}
case $name in
  list)
    while IFS='|' read -r name node text; do
      [ -z "$name" ] || printf '%-26s %-4s %s\n' "$name" "$node" "$text"
    done < <(faults)
    exit ;;
  '' | -*)
    sed -n '2,8p' "$0"
    exit 2 ;;
esac
remembered
line=$(grep "^$name|" < <(faults)) || die "no fault '$name'; '$0 list' shows them"
switch=${2:-}
node=${3:-$(cut -d'|' -f2 <<< "$line")}
[[ $switch =~ ^(on|off)$ ]] || die "usage: faults.sh $name on|off [NODE]"
[[ $node = - || " $nodes m1 " == *" $node "* ]] || die "no node '$node' in this rig; there are $nodes"

case $name:$switch in
  scheduler-broken:on) bogus_flag "$node" scheduler ;;
  controller-manager-broken:on) bogus_flag "$node" controllerManager ;;
  apiserver-broken:on) bogus_flag "$node" apiServer ;;
  kubelet-crash:on) patch "$node" '{"machine": {"kubelet": {"extraArgs": {"bogus-flag": "1"}}}}' ;;
  controller-manager-disabled:on) patch "$node" '{"machine": {"controlPlane": {"controllerManager": {"disabled": true}}}}' ;;
  scheduler-disabled:on) patch "$node" '{"machine": {"controlPlane": {"scheduler": {"disabled": true}}}}' ;;
  beta-api:on) patch "$node" '{"cluster": {"apiServer": {"extraArgs": {"runtime-config": "networking.k8s.io/v1beta1=true"}}}}' ;;
  custom-pod:on) custom_pod "$node" '"/pause"' ;;
  custom-pod-broken:on) custom_pod "$node" '"/pause", "-bogus-flag"' ;;
  kubelet-image:on) no_kubelet "$node" ;;
  kubelet-csr:on) patch "$node" '{"machine": {"kubelet": {"extraArgs": {"rotate-server-certificates": "true"}}}}' ;;
  etcd-broken:on)
    patch "$node" '{"cluster": {"etcd": {"extraArgs": {"bogus-flag": "1"}}}}'
    reboot "$node" ;;
  older-talos:on) reboot "$node" 1.13.0 ;;
  newer-talos:on)
    newer=$(pinned TALOS_DEFAULT)
    read -r _ etcd _ < <("$here/build.sh" with "$newer")
    [[ $node != cp* ]] || patch "$node" "{\"cluster\": {\"etcd\": {\"image\": \"registry.k8s.io/etcd:v$etcd\"}}}"
    reboot "$node" "$newer" ;;
  newer-talos:off)
    restore "$node"
    reboot "$node" ;;
  older-talos:off) reboot "$node" ;;
  extensions:*) # all nodes have the image in common, and read this when they boot
    file=/dev/null
    [ "$switch" = off ] || file=$here/extensions.yaml
    rig_node down "$node"
    cat "$file" > "$(rootfs_of "$TALOS")/etc/extensions.yaml"
    rig_node up "$node" ;;
  boot-blocked:on)
    no_kubelet "$node"
    reboot "$node" ;;
  boot-blocked:off) restore "$node" ;;
  *-broken:off | *-disabled:off | beta-api:off | custom-pod:off | kubelet-crash:off | kubelet-image:off | kubelet-csr:off)
    case $name in
      dns-broken) kubectl -n kube-system rollout undo deployment coredns ;;
      etcd-broken)
        restore "$node"
        reboot "$node" ;;
      kubelet-csr) # this kubelet would ask again
        restored_anew "$node" kubelet
        kubectl delete csr --field-selector spec.signerName=kubernetes.io/kubelet-serving ;;
      beta-api) restored_anew "$node" kube-apiserver ;; # this one is healthy until it is replaced
      *) restore "$node" ;;
    esac ;;
  learner:on) ghost_on "$node" --learner ;;
  unstarted-member:on) ghost_on "$node" ;;
  learner:off | unstarted-member:off) ghost_off "$node" ;;
  dns-on:on) dns_selector "\"$node\"" && dns_is_on "$node" ;;
  dns-on:off) dns_selector null ;;
  dns-scaled-to-zero:on) kubectl -n kube-system scale deployment coredns --replicas 0 ;;
  dns-scaled-to-zero:off) kubectl -n kube-system scale deployment coredns --replicas 2 ;;
  dns-broken:on)
    kubectl -n kube-system patch deployment coredns --type json -p "$(cat << 'J'
[{"op": "replace", "path": "/spec/strategy", "value": {"type": "Recreate"}},
 {"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": ["-bogus-flag"]}]
J
)" ;;
  cni-missing:on) mv "$(cni_file "$node")" "$disks/$node/cni" ;;
  cni-missing:off) mv "$disks/$node/cni" "$(cni_file "$node")" ;;
  node-deleted:on) kubectl delete node "$node" --wait=false ;;
  node-deleted:off) on_node "$node" service kubelet restart ;;
  node-registered-anew:on) registered_anew_on "$node" ;;
  node-registered-anew:off) registered_anew_off "$node" ;;
  no-gateway:on) ip -n "$E2E_NAME-$node" route del default ;;
  no-gateway:off) ip -n "$E2E_NAME-$node" route replace default via "$E2E_SUBNET.1" ;;
  trustd-filtered:on) local_filter -I "$node" 50001 ;;
  trustd-filtered:off) local_filter -D "$node" 50001 ;;
  api-filtered:on) filter -I "$node" ;;
  api-filtered:off) filter -D "$node" ;;
  cordon:on) kubectl cordon "$node" ;;
  cordon:off) kubectl uncordon "$node" ;;
  node-down:on) rig_node down "$node" ;;
  node-down:off) rig_node up "$node" ;;
  node-unplugged:on) ip -n "$net" link set "$E2E_NAME-$node" down ;;
  node-unplugged:off) ip -n "$net" link set "$E2E_NAME-$node" up ;;
  node-frozen:on) kill -STOP "$(init "$node")" ;;
  node-frozen:off) kill -CONT "$(init "$node")" ;;
  apid-frozen:on) signal "$node" apid STOP ;;
  apid-frozen:off) signal "$node" apid CONT ;;
  etcd-frozen:on) signal "$node" etcd STOP ;;
  etcd-frozen:off) signal "$node" etcd CONT ;;
  kubelet-frozen:on) signal "$node" kubelet STOP ;;
  kubelet-frozen:off) signal "$node" kubelet CONT ;;
  apiserver-frozen:on) signal "$node" kube-apiserver STOP ;;
  apiserver-frozen:off) signal "$node" kube-apiserver CONT ;;
  etcd-removed:on) etcd_removed_on "$node" ;;
  etcd-removed:off)
    rig_node wipe "$node"
    rig_node up "$node" ;;
  nospace-alarm:on) alarm nospace activate "$node" ;;
  nospace-alarm:off) alarm nospace deactivate "$node" ;;
  corrupt-alarm:on) alarm corrupt activate "$node" ;;
  corrupt-alarm:off) alarm corrupt deactivate "$node" ;;
  peers-filtered:on) peers -I "$node" ;;
  peers-filtered:off) peers -D "$node" ;;
  lossy:on) loss -I ;;
  lossy:off) loss -D ;;
  cri-frozen:on) cri "$node" STOP ;;
  cri-frozen:off) cri "$node" CONT ;;
  leaders-frozen:on) leaders STOP ;;
  leaders-frozen:off) leaders CONT ;;
  wrong-endpoint:on) joins_with "$node" "{\"cluster\": {
    \"controlPlane\": {\"endpoint\": \"https://$E2E_SUBNET.9:6443\"}, \"discovery\": {\"enabled\": false}}}" ;;
  wrong-token:on) joins_with "$node" '{"cluster": {"token": "aaaaaa.bbbbbbbbbbbbbbbb"}}' ;;
  wrong-endpoint:off | wrong-token:off) joins "$node" ;;
  gone:on) never_was "$node" ;;
  gone:off) rig_node up "$node" ;;
  renamed:on) patch "$node" "$(hostname_patch renamed)" ;;
  renamed:off)
    restore "$node"
    kubectl delete node renamed ;;
  cni-image:on) flannel '{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "ghcr.io/siderolabs/flannel:v0.0.1"}' ;;
  cni-crash:on) flannel '{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "-bogus-flag"}' ;;
  cni-image:off | cni-crash:off) kubectl -n kube-system rollout undo daemonset kube-flannel ;;
  manifest-added:on)
    manifests_on inlineManifests "$(inline_manifest added v1 ConfigMap)"
    manifest_applied 99-added ;;
  manifest-added:off) # Talos deletes nothing that it has created
    manifests_off
    kubectl -n kube-system delete configmap added --ignore-not-found ;;
  manifest-dead:on) manifests_on extraManifests "\"http://$E2E_SUBNET.1:9/dead.yaml\"" ;;
  manifest-refused:on) manifests_on inlineManifests "$(inline_manifest refused e2e.invalid/v1 Refused)" ;;
  manifest-dead:off | manifest-refused:off) manifests_off ;;
  maintenance:on) rig_node up m1 ;;
  maintenance:off) rig_node wipe m1 ;;
esac
echo "$name $switch: $node"
