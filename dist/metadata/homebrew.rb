class ClusterHealth < Formula
  desc "Health gate for Talos Linux and Kubernetes"
  homepage "@homepage@"
  version "@version@"
  license "@license@"

  on_macos do
    on_arm do
      url "@url:aarch64-apple-darwin@"
      sha256 "@sha256:aarch64-apple-darwin@"
    end
    on_intel do
      url "@url:x86_64-apple-darwin@"
      sha256 "@sha256:x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "@url:aarch64-unknown-linux-musl@"
      sha256 "@sha256:aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "@url:x86_64-unknown-linux-musl@"
      sha256 "@sha256:x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "cluster-health"
    man1.install "man/cluster-health.1"
    bash_completion.install "completions/cluster-health.bash" => "cluster-health"
    zsh_completion.install "completions/_cluster-health"
    fish_completion.install "completions/cluster-health.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/cluster-health --version")
  end
end
