#!/bin/bash
# Creates, once, all CAs, certificates and kubeconfigs of the rig with openssl (ECDSA P-256). Called by `rig.sh up`. The
# good ones are for the rig; *-expired, *-foreign (signed by an unknown CA) and *-misnamed are for the faults.
# shellcheck source=lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
set -e
umask 077
mkdir -p "$pki"
cd "$pki"

new_key="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"

ca() { # NAME
  [ ! -f "$1.crt" ] || return 0
  openssl req -x509 $new_key -keyout "$1.key" -out "$1.crt" -days 3650 -subj "/CN=$1" \
    -addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature 2> /dev/null
}

extensions() { # USES NAMES
  echo "keyUsage=critical,digitalSignature,keyEncipherment"
  echo "extendedKeyUsage=$1"
  [ -z "$2" ] || echo "subjectAltName=$2"
}

leaf() { # CA NAME SUBJECT USES [NAMES]
  [ ! -f "$2.crt" ] || return 0
  openssl req -new $new_key -keyout "$2.key" -out "$2.csr" -subj "$3" 2> /dev/null
  extensions "$4" "${5:-}" > "$2.ext"
  openssl x509 -req -in "$2.csr" -CA "$1.crt" -CAkey "$1.key" -CAcreateserial -out "$2.crt" -extfile "$2.ext" \
    -days 365 2> /dev/null
  rm "$2.csr" "$2.ext"
}

# Valid only in 2025. `openssl x509` of version 3.0 cannot set the start, so this uses openssl's small CA.
expired() { # CA NAME SUBJECT USES [NAMES]
  [ ! -f "$2.crt" ] || return 0
  local d
  d=$(mktemp -d)
  openssl req -new $new_key -keyout "$2.key" -out "$d/csr" -subj "$3" 2> /dev/null
  touch "$d/index"
  echo 01 > "$d/serial"
  cat > "$d/config" << C
[ca]
default_ca = small
[small]
database = $d/index
new_certs_dir = $d
serial = $d/serial
default_md = sha256
policy = any
x509_extensions = extensions
[any]
commonName = supplied
organizationName = optional
[extensions]
$(extensions "$4" "${5:-}")
C
  openssl ca -batch -config "$d/config" -cert "$1.crt" -keyfile "$1.key" -in "$d/csr" -out "$2.crt" -notext \
    -startdate 20250101000000Z -enddate 20260101000000Z 2> /dev/null
  rm -r "$d"
}

for name in etcd-ca kube-ca foreign-ca; do
  ca $name
done

# Each member's certificate serves both of its ports. Peers see connections from 127.0.0.1.
for i in 1 2 3 4; do
  leaf etcd-ca etcd$i /CN=etcd$i serverAuth,clientAuth "IP:$subnet.$i,IP:127.0.0.1"
done
expired etcd-ca etcd-expired /CN=etcd serverAuth,clientAuth "IP:$subnet.3"
leaf foreign-ca etcd-foreign /CN=etcd serverAuth,clientAuth "IP:$subnet.3"
leaf etcd-ca etcd-client /CN=kube-apiserver-etcd-client clientAuth
leaf etcd-ca etcd-root /CN=root clientAuth

names=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
names+=,IP:$vip,IP:10.96.0.1
for i in 1 2 3; do
  leaf kube-ca apiserver$i /CN=kube-apiserver serverAuth "$names,IP:$subnet.$i"
done
expired kube-ca apiserver-expired /CN=kube-apiserver serverAuth "$names,IP:$subnet.1"
leaf foreign-ca apiserver-foreign /CN=kube-apiserver serverAuth "$names,IP:$subnet.1"
leaf kube-ca apiserver-misnamed /CN=kube-apiserver serverAuth DNS:other.example

# `reader` gets the rights of `cluster-health rbac`, and `nobody` gets none.
leaf kube-ca admin /O=system:masters/CN=admin clientAuth
leaf kube-ca kube-controller-manager /CN=system:kube-controller-manager clientAuth
leaf kube-ca kube-scheduler /CN=system:kube-scheduler clientAuth
leaf kube-ca reader /CN=cluster-health clientAuth
leaf kube-ca nobody /CN=nobody clientAuth
expired kube-ca reader-expired /CN=cluster-health clientAuth
leaf foreign-ca reader-foreign /CN=cluster-health clientAuth

[ -f sa.key ] || openssl genrsa -out sa.key 2048 2> /dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2> /dev/null

for user in admin kube-controller-manager kube-scheduler reader nobody reader-expired reader-foreign; do
  print_kubeconfig $user "https://$vip:6443" "$(base64 -w0 kube-ca.crt)" \
    "client-certificate-data: $(base64 -w0 $user.crt), client-key-data: $(base64 -w0 $user.key)" > $user.kubeconfig
done
