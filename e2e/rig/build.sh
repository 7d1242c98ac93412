#!/bin/bash
# Builds the real programs that the rig runs, from the Go module proxy through the ordinary `go` client.
#
#   build.sh [COMPONENT...]     no argument: everything; COMPONENT is a program (etcd, kubelet, ...)
#   build.sh k8s                what the rig without Talos (k8s/rig.sh) needs
#   build.sh list               what is built without an argument, with versions
#   build.sh missing            what of it is not built yet
#   build.sh with [TALOS]       the etcd and the flannel that belong to all releases of Talos, or to one version
#
# TALOS=1.12.6 build.sh builds for another version of Talos: machined-1.12.6, talosctl-1.12.6, and the etcd and flannel that belong to it.
# KUBERNETES=1.34.4 build.sh k8s does the same for a control plane of Kubernetes: kube-apiserver-1.34.4, ...
# build.sh etcd-3.5.35 builds that version of etcd.
#
# Programs go to $E2E_CACHE/bin (default ${XDG_CACHE_HOME:-~/.cache}/cluster-health/bin). A stamp NAME-VERSION in
# $E2E_CACHE/stamps marks a finished build; the same version is not built twice.
set -euo pipefail

# ---- versions --------------------------------------------------------------------------------------------------------
GO_MIN=1.26.5        # asked for by Talos 1.14 (etcd 3.7 asks for 1.26.0)
ETCD=3.6.16          # of the rig without Talos, where no other version is asked for
KUBERNETES_DEFAULT=1.35.4 # before a change: all staging modules must be published as v0.35.4
KWOK=0.7.0
KINE=0.17.5
CNI=1.9.1
RUNC=1.3.6
CONTAINERD=2.2.9
TALOS_DEFAULT=1.14.1 # 1.12.6 and 1.13.0 work, too
COREDNS=1.14.6
# What belongs to a release of Talos: etcd, flannel, and the tag of the image in which Talos's manifest wants that flannel (for 1.12, a
# later one takes its place).
talos_releases="1.12 3.6.16 0.28.4 v0.27.4
1.13 3.6.16 0.28.4 v0.28.4
1.14 3.7.3 0.28.9 0.28.9"
TALOS=${TALOS:-$TALOS_DEFAULT}
TALOS=${TALOS#v}
KUBERNETES=${KUBERNETES:-$KUBERNETES_DEFAULT}
KUBERNETES=${KUBERNETES#v}

die() {
  echo "build.sh: $*" >&2
  exit 1
}
with_talos() { # VERSION: its line of talos_releases
  grep "^${1%.*} " <<< "$talos_releases" || die "nothing is known to belong to Talos $1"
}

# ---- components ------------------------------------------------------------------------------------------------------
kubernetes="kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl kube-proxy"
runtime="bridge loopback ptp host-local portmap runc containerd containerd-shim-runc-v2 coredns"
own="talosnode runcwrap ociserve pause labdiscovery etcdalarm flannel-cni"
talos="machined talosctl"
[ "$TALOS" = "$TALOS_DEFAULT" ] || talos="machined-$TALOS talosctl-$TALOS"
read -r _ talos_etcd talos_flannel _ < <(with_talos "$TALOS") || exit
[ "$talos_etcd" = "$ETCD" ] || talos+=" etcd-$talos_etcd"
talos+=" flanneld-$talos_flannel"
all="etcd etcdctl $kubernetes $runtime $own $talos"
control_plane="kube-apiserver kube-controller-manager kube-scheduler"
[ "$KUBERNETES" = "$KUBERNETES_DEFAULT" ] || control_plane=$(printf "%s-$KUBERNETES " $control_plane)
k8s="etcd etcdctl $control_plane kubectl kwok kine balancer"

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
E2E_CACHE=${E2E_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cluster-health}
bin=$E2E_CACHE/bin
src=$E2E_CACHE/src
stamps=$E2E_CACHE/stamps

# The caller's workspace and flags must not affect these builds. CGO is only enabled for runc and kine.
export GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0

# ---- recipes ---------------------------------------------------------------------------------------------------------
# recipe NAME: sets how (the function that builds it), wrapper (its module folder), version, package, flags (linker), tags
recipe() {
  how=build_wrapped wrapper='' version='' package='' flags='' tags=''
  case $1 in
    etcd) # the server's main package is the module root
      wrapper=etcd version=$ETCD package=go.etcd.io/etcd/server/v3
      flags="-X go.etcd.io/etcd/api/v3/version.GitSHA=goproxy" ;;
    etcd-[0-9]*)
      wrapper=etcd version=${1#etcd-} package=go.etcd.io/etcd/server/v3
      flags="-X go.etcd.io/etcd/api/v3/version.GitSHA=goproxy" ;;
    etcdctl) # asked for by name: the rig itself does without it
      wrapper=etcd version=$ETCD package=go.etcd.io/etcd/etcdctl/v3 ;;
    kube-apiserver | kube-controller-manager | kube-scheduler | kubelet | kubectl | kube-proxy)
      wrapper=kubernetes version=$KUBERNETES_DEFAULT package=k8s.io/kubernetes/cmd/$1
      flags=$(kubernetes_flags) ;;
    kube-apiserver-[0-9]* | kube-controller-manager-[0-9]* | kube-scheduler-[0-9]*)
      wrapper=kubernetes version=${1##*-} package=k8s.io/kubernetes/cmd/${1%-*}
      flags=$(kubernetes_flags) ;;
    kwok)
      how=build_kwok wrapper=kwok version=$KWOK package=sigs.k8s.io/kwok/cmd/kwok
      flags="-X sigs.k8s.io/kwok/pkg/consts.Version=v$KWOK" ;;
    kine) # with sqlite, which is written in C
      how=build_static wrapper=kine version=$KINE package=github.com/k3s-io/kine
      flags="-X github.com/k3s-io/kine/pkg/version.Version=v$KINE -linkmode=external -extldflags -static"
      tags="netgo osusergo sqlite_omit_load_extension" ;;
    bridge | loopback | ptp)
      wrapper=cni version=$CNI package=github.com/containernetworking/plugins/plugins/main/$1 ;;
    host-local)
      wrapper=cni version=$CNI package=github.com/containernetworking/plugins/plugins/ipam/$1 ;;
    portmap)
      wrapper=cni version=$CNI package=github.com/containernetworking/plugins/plugins/meta/$1 ;;
    runc) # static: it runs in the root file system of Talos, which has no libc
      how=build_static wrapper=runc version=$RUNC package=github.com/opencontainers/runc
      flags="-X main.version=$RUNC -linkmode=external -extldflags -static" tags="seccomp netgo osusergo" ;;
    containerd | containerd-shim-runc-v2)
      wrapper=containerd version=$CONTAINERD package=github.com/containerd/containerd/v2/cmd/$1
      flags="-X github.com/containerd/containerd/v2/version.Version=v$CONTAINERD" tags="no_btrfs no_devmapper no_zfs" ;;
    talosctl | machined)
      how=build_$1 version=$TALOS_DEFAULT ;;
    talosctl-[0-9]* | machined-[0-9]*)
      how=build_${1%%-*} version=${1#*-} ;;
    coredns)
      how=build_source version=$COREDNS package=github.com/coredns/coredns ;;
    flanneld-[0-9]*)
      how=build_source version=${1#*-} package=github.com/flannel-io/flannel
      flags="-X github.com/flannel-io/flannel/pkg/version.Version=v$version" ;;
    talosnode | runcwrap | ociserve | pause | labdiscovery | etcdalarm | flannel-cni | balancer)
      how=build_own package=$here/src/$1 ;; # our own: the version is the checksum of the source
    *)
      die "no component '$1'; build.sh list shows them" ;;
  esac
  if [ "$how" = build_own ]; then
    version=$(cat "$package/main.go" "$package/go.mod" | cksum | cut -d' ' -f1)
  fi
  if [ "$wrapper" = cni ]; then
    flags="-X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v$CNI"
  fi
}

# The answer to /version of the API server. buildDate only has to be well-formed.
kubernetes_flags() {
  local p minor=${version#1.}
  for p in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    printf -- '-X %s.%s ' \
      $p "gitVersion=v$version" $p gitMajor=1 $p "gitMinor=${minor%%.*}" \
      $p gitCommit=goproxy $p gitTreeState=clean $p buildDate=2026-04-15T18:01:22Z
  done
}

# ---- ways to build ---------------------------------------------------------------------------------------------------
# `go install PACKAGE@VERSION` refuses modules whose go.mod contains `replace` (etcd, Kubernetes). Each program is therefore built as a tool
# of an empty wrapper module; a `tool` line keeps the package in go.mod.
build_wrapped() { # NAME
  local dir=$src/$wrapper-$version
  mkdir -p "$dir"
  cd "$dir"
  if [ ! -f go.mod ]; then
    if [ "$wrapper" = kubernetes ]; then wrapper_kubernetes; else wrapper_plain; fi > go.mod.new
    mv go.mod.new go.mod
  fi
  go get -tool "$package@v$version" 2> go-get.log || { # it names every module that it adds: told only on failure
    cat go-get.log >&2
    return 1
  }
  go build -trimpath -buildvcs=false -tags "$tags" -ldflags "-s -w $flags" -o "$bin/.$1.new" "$package"
}

wrapper_plain() {
  printf 'module rig/%s\n\ngo 1.26.0\n' "$wrapper"
}

# Kubernetes replaces its staging modules (k8s.io/api, ...) with directories that a published module does not contain. They are published
# separately as v0.MINOR.PATCH. `go` and `godebug` of a dependency are ignored, so both are copied.
wrapper_kubernetes() {
  local gomod
  gomod=$(module_field "k8s.io/kubernetes@v$version" GoMod)
  echo "module rig/kubernetes"
  grep -E '^(go|godebug) ' "$gomod"
  echo "require k8s.io/kubernetes v$version"
  sed -nE "s|^[[:space:]]+(k8s.io/[a-z-]+) => \./staging.*|replace \1 => \1 v0.${version#1.}|p" "$gomod"
}

# kwok simulates nodes and pods with stages, which are files in its module. An additional guard makes it ignore objects that a fault has
# written: nodes and pods with the annotation rig/hold.
build_kwok() { # NAME
  local dir stage
  dir=$(module_field "${package%/cmd/*}@v$version" Dir)
  for stage in node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease pod/fast/pod-ready pod/fast/pod-complete; do
    sed '0,/^    matchExpressions:$/s||&\n    - {key: '\''.metadata.annotations["rig/hold"]'\'', operator: DoesNotExist}|' \
      "$dir/kustomize/stage/$stage.yaml"
    echo ---
  done > "$bin/.kwok-stages.new"
  cat "$dir/kustomize/stage/pod/fast/pod-delete.yaml" >> "$bin/.kwok-stages.new"
  build_wrapped "$1"
  mv "$bin/.kwok-stages.new" "$bin/kwok-stages.yaml"
}

build_static() { # NAME: a program that contains C
  CGO_ENABLED=1 build_wrapped "$1"
}

build_own() { # NAME
  cd "$package"
  GOFLAGS=-mod=readonly go build -trimpath -buildvcs=false -ldflags "-s -w" -o "$bin/.$1.new" .
}

# A copy of the module's own sources, so that its go.mod is used as it is (with `replace`).
build_source() { # NAME
  local dir=$src/${1%%-*}-$version
  if [ ! -d "$dir" ]; then
    rm -rf "$dir.new"
    mkdir -p "$dir.new"
    cp -r "$(module_field "$package@v$version" Dir)/." "$dir.new"
    chmod -R u+w "$dir.new"
    if [ "${1%%-*}" = flanneld ]; then without_extra_backends "$dir.new"; fi
    mv "$dir.new" "$dir"
  fi
  cd "$dir"
  go build -trimpath -buildvcs=false -ldflags "-s -w $flags" -o "$bin/.$1.new" .
}

# flanneld without two backends: the SDK of one is not published as a Go module, and the other needs cgo. Talos uses vxlan.
without_extra_backends() { # DIR
  sed -i '/pkg\/backend\/udp"/d; /pkg\/backend\/tencentvpc"/d' "$1/main.go"
  rm -r "$1/pkg/backend/tencentvpc"
}

# Versions that the go.mod of some Talos names and that are not published as Go modules, and the nearest published version, which compiles:
# go-blockdevice for Talos 1.12, the others for 1.14.
unpublished() { # MODULE VERSION PUBLISHED
  cat << 'E'
github.com/siderolabs/go-blockdevice/v2 v2.0.26 v2.0.28
github.com/cosi-project/runtime v1.16.3 v1.16.2
github.com/siderolabs/ethtool v0.6.0-sidero v0.4.0-sidero
github.com/jsimonetti/rtnetlink/v2 v2.2.1-0.20260802200809-43bafec815b3 v2.3.0
E
}

# Talos keeps pkg/machinery as a nested module behind a local `replace`, so a published copy has to take its place. Two forks are dropped,
# because their commits are not published everywhere, and upstream builds: that of containerd (only a smaller binary) and that of siv-go
# (only without assembly). Prints the source directory.
talos_source() {
  local dir=$src/talos-$version module missing published
  if [ ! -d "$dir" ]; then
    rm -rf "$dir.new"
    mkdir -p "$dir.new"
    cp -r "$(module_field "github.com/siderolabs/talos@v$version" Dir)/." "$dir.new"
    chmod -R u+w "$dir.new"
    mkdir -p "$dir.new/pkg/machinery"
    cp -r "$(module_field "github.com/siderolabs/talos/pkg/machinery@v$version" Dir)/." "$dir.new/pkg/machinery"
    chmod -R u+w "$dir.new"
    rm -f "$dir.new/go.work" "$dir.new/go.work.sum"
    sed -i -E '/^(replace |\s+)github.com\/(containerd\/containerd\/v2|secure-io\/siv-go) => /d' "$dir.new/go.mod"
    while read -r module missing published; do
      sed -i -E "s|(\s${module//./\\.}) ${missing//./\\.}( .*)?\$|\1 $published\2|" "$dir.new/go.mod" "$dir.new/pkg/machinery/go.mod"
    done < <(unpublished)
    mv "$dir.new" "$dir"
  fi
  echo "$dir"
}

build_talosctl() { # NAME
  cd "$(talos_source)"
  go build -buildvcs=false -ldflags "-s -w" -o "$bin/.$1.new" ./cmd/talosctl
}

# machined is PID 1 of a Talos node, and under other names also apid, trustd and more. One line differs from upstream, because many
# containers and CI machines lack CAP_SYS_RESOURCE: a refused negative oom_score_adj (EACCES) is not an error. The sources stay unchanged:
# the modified file is overlaid for this build only.
build_machined() { # NAME
  local dir file=internal/app/machined/pkg/system/runner/process/process.go patch=$src/$1-$version-patch
  dir=$(talos_source)
  mkdir -p "$patch"
  sed 's/if !ok || pathError.Err != syscall.ENOENT {/if !ok || (pathError.Err != syscall.ENOENT \&\& pathError.Err != syscall.EACCES) {/' \
    "$dir/$file" > "$patch/process.go"
  ! cmp -s "$dir/$file" "$patch/process.go" || die "machined $version: the patch of $file does not apply"
  echo "{\"Replace\": {\"$dir/$file\": \"$patch/process.go\"}}" > "$patch/overlay.json"
  cd "$dir"
  go build -buildvcs=false -overlay "$patch/overlay.json" -tags tcell_minimal,grpcnotrace \
    -ldflags "-s -w -X golang.zx2c4.com/wireguard/ipc.socketDirectory=/system/wireguard-sock" \
    -o "$bin/.$1.new" ./internal/app/machined
}

# ---- machinery -------------------------------------------------------------------------------------------------------
# module_field MODULE@VERSION FIELD: downloads a module and prints one field of its `go mod download` output
module_field() {
  local json
  json=$(cd "$src" && go mod download -json "$1") || die "cannot download $1: $json"
  sed -nE "s/^[[:space:]]*\"$2\": \"(.*)\",?$/\1/p" <<< "$json"
}

need_go() {
  local have
  command -v go > /dev/null || die "Go is not in PATH; Go $GO_MIN or newer is needed"
  have=$(go env GOVERSION)
  have=${have#go}
  have=${have%% *}
  printf '%s\n%s\n' "$GO_MIN" "$have" | sort -V -C || die "Go $have is too old: Go $GO_MIN or newer is needed"
}

# Checked before the first build, so that a long run does not fail at its end.
need_compiler() {
  command -v cc > /dev/null || die "kine needs a C compiler: apt-get install -y gcc libc6-dev"
}
need_packages() {
  command -v cc > /dev/null && command -v pkg-config > /dev/null && pkg-config --exists libseccomp ||
    die "runc needs C packages: apt-get install -y gcc libc6-dev pkg-config libseccomp-dev"
}

build() { # NAME
  recipe "$1"
  if [ -x "$bin/$1" ] && [ -e "$stamps/$1-$version" ]; then
    echo "$1 $version: already built"
    return
  fi
  local t=$SECONDS
  # A subshell with its own -e: a failure inside must end the script, not be hidden by a condition around it.
  ("$how" "$1")
  find "$stamps" -regex ".*/$1-[0-9.]+" -delete # not the stamp of machined-1.12.6, when this is machined
  mv "$bin/.$1.new" "$bin/$1"
  touch "$stamps/$1-$version"
  echo "$1 $version: built in $((SECONDS - t)) s, $(($(stat -c %s "$bin/$1") / 1000000)) MB"
}

case ${1:-} in
  list)
    for name in $all; do
      recipe "$name"
      echo "$name $version"
    done
    exit ;;
  with)
    if [ $# = 1 ]; then echo "$talos_releases"; else with_talos "${2#v}"; fi
    exit ;;
  missing)
    for name in $all; do
      recipe "$name"
      [ -x "$bin/$name" ] && [ -e "$stamps/$name-$version" ] || echo "$name"
    done
    exit ;;
  -*)
    sed -n '2,15p' "$0"
    exit 2 ;;
esac
# shellcheck disable=SC2206 # names are words
case $* in
  '') names=($all) ;;
  k8s) names=($k8s) ;;
  *) names=("$@") ;;
esac
for name in "${names[@]}"; do
  recipe "$name" # an unknown name ends the script before anything is built
done

need_go
case " ${names[*]} " in *" runc "*) need_packages ;; esac
case " ${names[*]} " in *" kine "*) need_compiler ;; esac
mkdir -p "$bin" "$src" "$stamps"
exec 9> "$E2E_CACHE/build.lock"
flock 9 # two builds at once would write the same wrapper modules
for name in "${names[@]}"; do
  build "$name"
done
