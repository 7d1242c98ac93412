# The released program, for `callPackage`.
{ lib, stdenvNoCC, fetchurl, installShellFiles }:
let
  releases = {
    x86_64-linux = { url = "@url:x86_64-unknown-linux-musl@"; sha256 = "@sha256:x86_64-unknown-linux-musl@"; };
    aarch64-linux = { url = "@url:aarch64-unknown-linux-musl@"; sha256 = "@sha256:aarch64-unknown-linux-musl@"; };
    x86_64-darwin = { url = "@url:x86_64-apple-darwin@"; sha256 = "@sha256:x86_64-apple-darwin@"; };
    aarch64-darwin = { url = "@url:aarch64-apple-darwin@"; sha256 = "@sha256:aarch64-apple-darwin@"; };
  };
in
stdenvNoCC.mkDerivation {
  pname = "cluster-health";
  version = "@version@";
  src = fetchurl releases.${stdenvNoCC.hostPlatform.system};
  nativeBuildInputs = [ installShellFiles ];
  installPhase = ''
    install -D -m 0755 cluster-health $out/bin/cluster-health
    installManPage man/cluster-health.1
    installShellCompletion --bash completions/cluster-health.bash
    installShellCompletion --zsh completions/_cluster-health
    installShellCompletion --fish completions/cluster-health.fish
  '';
  meta = {
    description = "Health gate for Talos Linux and Kubernetes";
    homepage = "@homepage@";
    license = lib.licenses.asl20;
    mainProgram = "cluster-health";
    platforms = lib.attrNames releases;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
  };
}
