#!/bin/bash
# Real, reversible faults on a running rig. One at a time: off before the next.
#
#   faults.sh list
#   faults.sh NAME on|off [OF-WHAT]
#
# `on` returns when the fault is there. `off` undoes it, starts what it took down with it, and returns when all API servers,
# nodes and pods are ready.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

utc() {
  date -u +%FT%TZ
}
member_id() { # NAME [PEER-ADDRESS]: hexadecimal. Not through JSON, whose numbers lose digits
  etcd_do member list | awk -F', ' -v name="$1" -v peer="${2:-none}" '$3 == name || index($4, peer) { print $1; exit }'
}
# etcd requires all members to have been connected for 5 s before it accepts a new one.
member_add() { # ARG...
  repeat 20 1 etcd_do member add "$@"
}
restart_etcd() { # I
  crash "etcd$1"
  start_etcd "$1"
  wait_etcd
}
restart_api() { # I [CERTIFICATE]
  crash "api$1"
  api_cert=${2:-apiserver$1} start_api "$1"
  wait_ready "$1"
}
restart_balancer() { # BACKEND...
  crash balancer
  start_balancer "$@"
}
freeze() { # NAME
  kill -STOP "$(pid "$1")"
}
thaw() { # NAME
  kill -CONT "$(pid "$1")"
}

# ---- etcd ------------------------------------------------------------------------------------------------------------
#: etcd-one-down         member 3 killed; two of three voters left
etcd_one_down_on() {
  crash etcd3
  wait_etcd 1 2
}
etcd_one_down_off() {
  start_etcd 3
}

#: etcd-leader-down      the leader is moved to member 2 and killed; returns when the others have elected a new one
etcd_leader_down_on() {
  local leader
  leader=$(etcd_do endpoint status | awk -F', ' '$9 == "true" { print $1 }')
  [ -z "$leader" ] || [ "$leader" = "https://$subnet.2:2379" ] ||
    etcdctl --endpoints "$leader" move-leader "$(member_id cp-2)"
  crash etcd2
  wait_etcd 1 3
}
etcd_leader_down_off() {
  start_etcd 2
}

#: etcd-quorum-lost      members 2 and 3 killed; the controller manager and the scheduler give up and end
etcd_quorum_lost_on() {
  crash etcd2
  crash etcd3
}
etcd_quorum_lost_off() {
  start_etcd 2
  start_etcd 3
  # One that has not ended yet may do so when the cluster already counts as healthy.
  crash controller-manager
  crash scheduler
}

#: etcd-hang             member 3 frozen (SIGSTOP): accepts TCP, never answers
etcd_hang_on() {
  freeze etcd3
  wait_etcd 1 2
}
etcd_hang_off() {
  thaw etcd3
}

#: etcd-cert-expired     member 3 serves clients with an expired certificate (its peers see a good one)
etcd_cert_expired_on() {
  crash etcd3
  etcd_cert=etcd-expired start_etcd 3
  wait_etcd 1 2
  voters_agree
}
etcd_cert_expired_off() {
  restart_etcd 3
}

#: etcd-wrong-ca         member 3 serves clients with a certificate of a foreign CA (its peers see a good one)
etcd_wrong_ca_on() {
  crash etcd3
  etcd_cert=etcd-foreign start_etcd 3
  wait_etcd 1 2
  voters_agree
}
etcd_wrong_ca_off() {
  restart_etcd 3
}
# The member that clients cannot query takes part again: it serves clients only after it has found the leader.
voters_agree() {
  repeat 100 0.2 accepts "$subnet.3" 2379
}
accepts() { # HOST PORT
  (: < "/dev/tcp/$1/$2") 2> /dev/null
}

#: etcd-nospace          all members restarted with a quota of 20 MiB, then filled until NOSPACE: every write fails
etcd_nospace_on() {
  local i
  for i in 1 2 3; do
    quota=20971520 restart_etcd $i
  done
  head -c 1000000 /dev/urandom | base64 -w0 > "$run/blob"
  for i in $(seq 40); do
    etcd_do put "/rig-fill/$i" < "$run/blob" > "$run/fill.log" 2>&1 || break
  done
  grep -q 'database space exceeded' "$run/fill.log"
}
etcd_nospace_off() { # a member with an alarm counts as unhealthy, so the restarts come last
  local i revision
  etcd_do del --prefix /rig-fill/
  revision=$(etcd_do get / --limit=1 -w fields | sed -n 's/"Revision" : //p')
  etcd_do compact "$revision" --physical
  etcd_do --command-timeout=60s defrag
  etcd_do alarm disarm
  for i in 1 2 3; do
    restart_etcd $i
  done
}

#: etcd-corrupt          CORRUPT alarm for member 2, raised through the API: real alarm, healthy store
etcd_corrupt_on() {
  curl -sS --cacert "$ETCDCTL_CACERT" --cert "$ETCDCTL_CERT" --key "$ETCDCTL_KEY" "https://$subnet.1:2379/v3/maintenance/alarm" \
    -d "{\"action\":\"ACTIVATE\",\"memberID\":\"$(printf %u "0x$(member_id cp-2)")\",\"alarm\":\"CORRUPT\"}"
  etcd_do alarm list | grep -q CORRUPT
}
etcd_corrupt_off() {
  etcd_do alarm disarm
}

#: etcd-learner          a fourth member joins as a learner and stays one: no vote, and no fault by itself
etcd_learner_on() {
  member_add cp-4 --learner --peer-urls="https://$subnet.4:2380" || return
  cluster_state=existing cluster=$(peers 1 2 3 4) start_etcd 4
  repeat 100 0.2 has_started cp-4
}
has_started() { # NAME: it has told the others how it is called
  [ -n "$(member_id "$1")" ]
}
etcd_learner_off() {
  etcd_do member remove "$(member_id cp-4 "$subnet.4:")"
  crash etcd4
  rm -rf "$data/etcd4"
}

#: etcd-even             a fourth voter: quorum is 3 of 4, no more tolerance than with three
etcd_even_on() {
  etcd_learner_on || return
  repeat 20 1 etcd_do member promote "$(member_id cp-4)" && # refused until it has caught up
    wait_etcd 4
}
etcd_even_off() {
  etcd_learner_off
}

#: etcd-unstarted        a fourth voter added but never started: no name, no client URLs, quorum is 3 of 4
etcd_unstarted_on() {
  member_add cp-4 --peer-urls="https://$subnet.4:2380"
}
etcd_unstarted_off() {
  etcd_learner_off
}

#: etcd-mixed VERSION    member 3 runs another minor version, as in the middle of an upgrade
etcd_mixed_on() { # VERSION
  crash etcd3
  etcd_program=etcd-$1 start_etcd 3
  wait_etcd
}
etcd_mixed_off() {
  restart_etcd 3
}

#: etcd-removed          member 3 removed; its process ends; two voters, tolerance 0
etcd_removed_on() {
  etcd_do member remove "$(member_id cp-3)"
  repeat 50 0.2 gone etcd3
  wait_etcd 1 2
}
gone() { # NAME
  ! alive "$1"
}
etcd_removed_off() {
  crash etcd3
  rm -rf "$data/etcd3"
  member_add cp-3 --peer-urls="https://$subnet.3:2380" || return
  cluster_state=existing start_etcd 3
}

# ---- kine (shapes sqlite and one-server) ------------------------------------------------------------------------------
#: storage-down          kine killed: no API server can read or write
storage_down_on() {
  crash kine
}
storage_down_off() {
  :
}

#: storage-hang          kine frozen (SIGSTOP): accepts, never answers
storage_hang_on() {
  freeze kine
}
storage_hang_off() {
  thaw kine
}

# ---- API servers -----------------------------------------------------------------------------------------------------
#: api-one-down          API server 1 killed; the balancer passes it over
api_one_down_on() {
  crash api1
}
api_one_down_off() {
  start_api 1
}

#: api-all-down          all API servers killed: the balancer closes every connection
api_all_down_on() {
  crash api1
  crash api2
  crash api3
}
api_all_down_off() {
  :
}

#: api-hang              API server 1 frozen (SIGSTOP): accepts TCP, never answers
api_hang_on() {
  freeze api1
}
api_hang_off() {
  thaw api1
}

#: api-hang-endpoint     API server 3 likewise, to which the balancer leads
api_hang_endpoint_on() {
  freeze api3
}
api_hang_endpoint_off() {
  thaw api3
}

#: api-slow              API server 1 answers after 3.6 s: its port is that of a slow way to it
api_slow_on() {
  crash api1
  api_address=$subnet.50 start_api 1
  start api1-front cp-1 balancer -latency 1800ms "$subnet.1:6443" "$subnet.50:6443"
  wait_ready 50
}
api_slow_off() {
  crash api1-front
  crash api1
}

#: api-cert-expired      API server 1 serves an expired certificate
api_cert_expired_on() {
  restart_api 1 apiserver-expired
}
api_cert_expired_off() {
  restart_api 1
}

#: api-wrong-ca          API server 1 serves a certificate of a foreign CA
api_wrong_ca_on() {
  restart_api 1 apiserver-foreign
}
api_wrong_ca_off() {
  restart_api 1
}

#: api-wrong-san         API server 1 serves a certificate without its address
api_wrong_san_on() {
  restart_api 1 apiserver-misnamed
}
api_wrong_san_off() {
  restart_api 1
}

#: api-anonymous-off     all API servers with --anonymous-auth=false, Talos's default: no fault
api_anonymous_off_on() {
  local i
  for i in 1 2 3; do
    anonymous=false restart_api $i
  done
}
api_anonymous_off_off() {
  local i
  for i in 1 2 3; do
    restart_api $i
  done
}

#: api-429               the one seat of the user cluster-health is taken: its requests get 429 (priority and fairness), /readyz is exempt
api_429_on() {
  kubectl apply -f - << 'Y'
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: rig-zero}
spec:
  type: Limited
  limited: {nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0, limitResponse: {type: Reject}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: rig-zero}
spec:
  priorityLevelConfiguration: {name: rig-zero}
  matchingPrecedence: 5
  rules:
  - subjects: [{kind: User, user: {name: cluster-health}}]
    resourceRules: [{verbs: ["*"], apiGroups: ["*"], resources: ["*"], clusterScope: true, namespaces: ["*"]}]
    nonResourceRules: [{verbs: ["*"], nonResourceURLs: ["*"]}]
Y
  # Each of these requests waits 3 s for a version that will not come, and then the next one takes the seat.
  local i
  for i in 1 2 3 4; do
    start "hog$i" "hog$i" bash -c 'while sleep 0.02; do curl -sk -o /dev/null --cert "$0.crt" --key "$0.key" "$1"; done' "$pki/reader" \
      "https://$vip:6443/api/v1/nodes?resourceVersionMatch=NotOlderThan&resourceVersion=9000000000000000000"
  done
  repeat 100 0.2 throttled
}
throttled() {
  [ "$(curl -sk -m 9 -o /dev/null -w '%{http_code}' --cert "$pki/reader.crt" --key "$pki/reader.key" "https://$vip:6443/api/v1/nodes")" = 429 ]
}
api_429_off() {
  local i
  for i in 1 2 3 4; do
    crash "hog$i"
  done
  kubectl delete flowschema/rig-zero prioritylevelconfiguration/rig-zero
}

#: api-without-quorum    members 2 and 3 killed, then all API servers restarted: 403 for a minute, RBAC cannot be loaded
api_without_quorum_on() {
  local i
  etcd_quorum_lost_on
  for i in 1 2 3; do
    crash api$i
    start_api $i
  done
  for i in 1 2 3; do
    repeat 150 0.2 answers 403 "$subnet.$i" reader
  done
}
api_without_quorum_off() {
  local i
  etcd_quorum_lost_off
  for i in 1 2 3; do
    crash api$i
  done
}

#: balancer-empty        the balancer has no backend that accepts, all API servers are well
balancer_empty_on() {
  restart_balancer "$subnet.250:6443"
}
balancer_empty_off() {
  crash balancer
}

#: balancer-slow         the first answer through the balancer takes 3.6 s, all others 1.8 s
balancer_slow_on() {
  latency=1800ms restart_balancer
}
balancer_slow_off() {
  crash balancer
}

# ---- rights ----------------------------------------------------------------------------------------------------------
#: right-removed RIGHT   the user cluster-health loses the right to list these objects, or to read this URL
right_removed_on() { # RIGHT
  local i
  kubectl get clusterrole cluster-health -o json > "$run/rights.json"
  python3 - "$1" "$run/rights.json" << 'P' | kubectl replace -f -
import json
import sys

right, path = sys.argv[1:]
role = json.load(open(path))
rules, found = [], False
for rule in role["rules"]:
    for key in ("resources", "nonResourceURLs"):
        if right in rule.get(key, []):
            found = True
            rule[key].remove(right)
    if rule.get("resources") or rule.get("nonResourceURLs"):
        rules.append(rule)
if not found:
    sys.exit(f"the ClusterRole does not grant {right}")
role["rules"] = rules
print(json.dumps(role))
P
  [ "${PIPESTATUS[0]}" = 0 ] || return 1
  # Otherwise, the default permissions of all users would still grant it.
  case $1 in /*) public_urls ;; esac
  for i in 1 2 3; do # each watches these objects
    repeat 100 0.2 allowed no "$i" "$1"
  done
}
right_removed_off() { # RIGHT
  local i
  kubectl apply -f "$run/rights.yaml"
  case $1 in /*) public_urls authenticated unauthenticated ;; esac
  for i in 1 2 3; do
    repeat 100 0.2 allowed yes "$i" "$1"
  done
}
public_urls() { # [GROUP...]: those who may read /readyz and a few others by the two roles that Kubernetes begins with
  local group subjects=()
  for group in "$@"; do
    subjects+=("{\"apiGroup\": \"rbac.authorization.k8s.io\", \"kind\": \"Group\", \"name\": \"system:$group\"}")
  done
  kubectl patch clusterrolebinding system:public-info-viewer --type merge -p "{\"subjects\": [$(IFS=,; echo "${subjects[*]}")]}"
  # This binding is only for authenticated users.
  kubectl patch clusterrolebinding system:discovery --type merge -p "{\"subjects\": [${subjects[0]:-}]}"
}
allowed() { # yes|no I RIGHT
  local ask="list $3 --all-namespaces"
  case $3 in
    /*) ask="get $3" ;;
    namespaces) ask="get namespaces/kube-system" ;; # the only one that is granted
  esac
  [ "$(kubectl auth can-i $ask --as cluster-health --server "https://$subnet.$2:6443" 2> /dev/null)" = "$1" ]
}

# ---- nodes (played by kwok; the annotation rig/hold keeps it from repairing what the fault wrote) ---------------------
hold() { # KIND/NAME
  kubectl -n kube-system annotate "$1" rig/hold=true --overwrite
}
release() { # KIND/NAME
  kubectl -n kube-system annotate "$1" rig/hold-
}
patch_status() { # KIND/NAME STATUS
  kubectl -n kube-system patch "$1" --subresource=status --type=strategic -p "{\"status\":$2}"
}
condition() { # TYPE STATUS REASON MESSAGE
  local t
  t=$(utc)
  printf '{"type":"%s","status":"%s","reason":"%s","message":"%s"' "$@"
  printf ',"lastHeartbeatTime":"%s","lastTransitionTime":"%s"}' "$t" "$t"
}

#: node-unknown          kwok lets go of worker-0001: no lease any more; the node controller writes Unknown after 45 to 52 s
node_unknown_on() {
  kubectl label node worker-0001 type-
}
node_unknown_off() {
  local pod
  kubectl label node worker-0001 type=kwok --overwrite
  # The node controller had set Ready=False on the node's pods. A real kubelet resets it, kwok does not.
  for pod in $(kubectl -n kube-system get pods --field-selector spec.nodeName=worker-0001 -o name); do
    patch_status "$pod" "{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":\"$(utc)\"}]}"
  done
}

#: node-notready         worker-0002 says KubeletNotReady (no CNI): condition written by hand, in the kubelet's words
node_notready_on() {
  local why='container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady'
  why+=' message:Network plugin returns error: cni plugin not initialized'
  hold node/worker-0002
  patch_status node/worker-0002 "{\"conditions\":[$(condition Ready False KubeletNotReady "$why")]}"
}
node_notready_off() {
  release node/worker-0002
}

#: node-pressure         worker-0003 has DiskPressure and stays Ready: condition written by hand
node_pressure_on() {
  hold node/worker-0003
  patch_status node/worker-0003 "{\"conditions\":[$(condition DiskPressure True KubeletHasDiskPressure 'kubelet has disk pressure')]}"
}
node_pressure_off() {
  patch_status node/worker-0003 "{\"conditions\":[$(condition DiskPressure False KubeletHasNoDiskPressure 'kubelet has no disk pressure')]}"
  release node/worker-0003
}

#: node-cordoned         worker-0004 cordoned: well, but takes no pods
node_cordoned_on() {
  kubectl cordon worker-0004
}
node_cordoned_off() {
  kubectl uncordon worker-0004
}

# ---- pods and requests -----------------------------------------------------------------------------------------------
break_pod() { # POD CONTAINER: the status a kubelet writes for CrashLoopBackOff; its phase stays Running
  local t why="containers with unready status: [$2]"
  t=$(utc)
  patch_status "pod/$1" "$(cat << J
{"phase": "Running",
 "conditions": [
  {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "$why", "lastTransitionTime": "$t"},
  {"type": "ContainersReady", "status": "False", "reason": "ContainersNotReady", "message": "$why", "lastTransitionTime": "$t"}],
 "containerStatuses": [
  {"name": "$2", "image": "$2", "imageID": "", "ready": false, "started": false, "restartCount": 7,
   "state": {"waiting": {"reason": "CrashLoopBackOff",
    "message": "back-off 5m0s restarting failed container=$2 pod=$1_kube-system"}},
   "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": "$t", "finishedAt": "$t"}}}]}
J
)"
}
dns_pods() {
  kubectl -n kube-system get pods -l k8s-app=kube-dns -o 'jsonpath={.items[*].metadata.name}'
}

#: pod-crashloop         one of two coredns pods in CrashLoopBackOff: status written by hand
pod_crashloop_on() {
  local pods
  read -ra pods <<< "$(dns_pods)"
  break_pod "${pods[0]}" coredns
}
pod_crashloop_off() {
  kubectl -n kube-system delete pods -l k8s-app=kube-dns
}

#: dns-crashloop         both coredns pods likewise
dns_crashloop_on() {
  local pod
  for pod in $(dns_pods); do
    break_pod "$pod" coredns
  done
}
dns_crashloop_off() {
  pod_crashloop_off
}

#: static-pod-crashloop  mirror pod kube-scheduler-cp-2 in CrashLoopBackOff: status written by hand
static_pod_crashloop_on() {
  break_pod kube-scheduler-cp-2 kube-scheduler
}
static_pod_crashloop_off() {
  kubectl -n kube-system delete pod kube-scheduler-cp-2 --grace-period=0 --force
}

#: static-pod-missing    mirror pod kube-controller-manager-cp-3 deleted; no kubelet brings it back
static_pod_missing_on() {
  kubectl -n kube-system delete pod kube-controller-manager-cp-3 --grace-period=0 --force
}
static_pod_missing_off() {
  : # made again at the end of every `off`
}

#: leaders-frozen        the controller manager and the scheduler are frozen (SIGSTOP): their leases end, pods stay Ready
leaders_frozen_on() {
  freeze controller-manager
  freeze scheduler
}
leaders_frozen_off() { # they would end as soon as they see that their leases are over
  crash controller-manager
  crash scheduler
}

#: pod-pending           a user's pod that fits on no node
pod_pending_on() {
  kubectl -n default run rig-pending --image=none --overrides='{"spec":{"nodeSelector":{"no":"node"}}}'
}
pod_pending_off() {
  kubectl -n default delete pod rig-pending
}

#: csr-pending           a request for a kubelet's serving certificate (worker-0005) that nobody approves
csr_pending_on() {
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null \
    -subj /O=system:nodes/CN=system:node:worker-0005 -addext subjectAltName=DNS:worker-0005,IP:127.0.20.5 \
    2> /dev/null > "$run/request.pem"
  kubectl create --as system:node:worker-0005 --as-group system:nodes --as-group system:authenticated -f - << Y
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: rig-request}
spec:
  request: $(base64 -w0 "$run/request.pem")
  signerName: kubernetes.io/kubelet-serving
  usages: [digital signature, server auth]
Y
}
csr_pending_off() {
  kubectl delete csr rig-request
}

# ----------------------------------------------------------------------------------------------------------------------
case "${1:-} ${2:-}" in
  "list ")
    sed -n 's/^#: //p' "$0"
    exit ;;
  *" on" | *" off")
    declare -F "${1//-/_}_$2" > /dev/null || die "no fault '$1'; faults.sh list shows them"
    enter_rig "$@" ;;
  *)
    sed -n '2,8p' "$0"
    exit 2 ;;
esac
result=0
"${1//-/_}_$2" "${@:3}" || result=$?
if [ "$2" = off ]; then
  bring_up && objects || result=1
fi
exit $result
