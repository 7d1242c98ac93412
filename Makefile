# Everything a contributor or a CI needs. Each target sets up what it misses: as root on Debian with apt-get, else it says
# what to install. `make help` shows the targets.

CARGO ?= cargo
TARGET := x86_64-unknown-linux-musl
BUILT := $(or $(CARGO_TARGET_DIR),target)
BINARY := $(BUILT)/$(TARGET)/release/cluster-health
# Where e2e/rig/build.sh puts what it builds.
E2E_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cluster-health
# Where tools/setup puts the linters of integrations/ and the readers of the reports.
INTEGRATIONS_TOOLS ?= $(E2E_CACHE)/integrations
# Where tools/setup puts what `make dist` calls, and where that leaves a release.
DIST_TOOLS ?= $(E2E_CACHE)/dist
DIST ?= $(BUILT)/dist
# Of dist/build: `--profile demo --target x86_64-unknown-linux-musl` to try a change of the scripts.
DIST_OPTIONS ?=
# Where `make install` puts the program, and how it is built: `demo` takes a fraction of the time, and is slow.
PREFIX ?= /usr/local
PROFILE ?= release
SHARED := man/man1 bash-completion/completions zsh/site-functions fish/vendor_completions.d
# How many seconds `make fuzz` spends on each parser.
FUZZ ?= 60
# Which clusters `make chaos` makes, and how many.
SEED ?= 1
N ?= 200
# What the end-to-end suite drives.
E2E_BINARY ?= $(BUILT)/debug/cluster-health

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | column -t -s "$$(printf '\t')"

.PHONY: setup
setup: ## Install the pinned Rust toolchain, if it is missing
	@tools/setup rust

.PHONY: build
build: setup ## Build the program for development
	$(CARGO) build --locked

.PHONY: demo
demo: setup ## Show the program at work on two simulated clusters (half a minute once built)
	$(CARGO) build --locked --profile demo --package cluster-health --package simulator
	@tools/demo $(BUILT)/demo

.PHONY: test
test: setup ## Set up what is missing and run all tests
	@tools/setup terminal
	$(CARGO) test --locked --workspace

.PHONY: matrix
matrix: setup ## Run the program and the real talosctl against every failure of the matrix; rewrites docs/matrix.md (Go)
	@tools/setup talosctl
	e2e/rig/build.sh talosctl
	$(CARGO) test --locked --test matrix -- --talosctl "$(E2E_CACHE)/bin/talosctl" --write docs/matrix.md

.PHONY: html
html: setup ## Open the HTML report in a real browser: looks, keyboard, screen readers, injections (Chromium, Node)
	@tools/setup browser
	tests/html/run $(SHOTS)

.PHONY: docs
docs: setup ## Build the site into target/docs/html: reference from the code, every command run, no dead link (mdBook, hyperlink)
	@command -v mdbook >/dev/null || $(CARGO) install --quiet --locked mdbook@0.5.4 --no-default-features --features search
	@command -v hyperlink >/dev/null || $(CARGO) install --quiet --locked hyperlink@0.3.2
	$(CARGO) build --locked --package cluster-health --package simulator
	@tools/docs $(BUILT)/debug

.PHONY: lint
lint: setup ## Formatting and lints, as CI asks for them
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

.PHONY: integrations
integrations: setup ## Check integrations/ and the machine-readable reports with the tools that read them (Java, Maven, Node, kubectl)
	@TOOLS=$(INTEGRATIONS_TOOLS) tools/setup integrations
	tools/lint-integrations $(INTEGRATIONS_TOOLS)
	tests/readers/run $(INTEGRATIONS_TOOLS)
	$(CARGO) build --locked --package cluster-health --package simulator
	integrations/try $(BUILT)/debug $(INTEGRATIONS_TOOLS)
	integrations/fleet/try $(BUILT)/debug
	integrations/notify/try $(BUILT)/debug $(INTEGRATIONS_TOOLS)
	tests/kubeconfigs/compare $(BUILT)/debug/cluster-health

.PHONY: chaos
chaos: setup ## Run the program against random clusters with random faults: SEED=1 N=200
	$(CARGO) build --locked --package cluster-health --package chaos
	$(BUILT)/debug/chaos --program $(BUILT)/debug/cluster-health --out $(BUILT)/chaos --seed $(SEED) --worlds $(N) $(CHAOS)

.PHONY: omni-judge
omni-judge: setup ## What is signed for Omni, before the verifier that Omni has (Go)
	go -C tools/omni-judge build -o "$(abspath $(BUILT))/omni-judge" .
	OMNI_JUDGE="$(abspath $(BUILT))/omni-judge" $(CARGO) test --locked --bin cluster-health -- the_verifier_of_omni

# The rig's binaries, which the end-to-end tests build as well.
.PHONY: commands
commands: setup ## Run every command that is proposed for any fault by the real talosctl and kubectl (Go)
	@tools/setup talosctl
	e2e/rig/build.sh talosctl kubectl
	$(CARGO) build --locked --package cluster-health --package chaos
	$(BUILT)/debug/chaos --program $(BUILT)/debug/cluster-health --out $(BUILT)/chaos --faults --tools "$(E2E_CACHE)/bin"

.PHONY: attack
attack: release ## Run the program against malicious servers and files, and measure memory and time (five minutes; ATTACK=Version for some)
	$(CARGO) build --locked --package chaos
	$(BUILT)/debug/chaos --program $(BINARY) --attack "$(ATTACK)"

# The targets are tests: what was found and kept is tried again by `make test`. libFuzzer comes with bolero, and wants a C++ compiler.
.PHONY: fuzz
fuzz: setup ## Fuzz the parsers of foreign text, FUZZ=60 seconds each (a few minutes to build)
	tools/fuzz $(FUZZ)

.PHONY: mutants
mutants: setup ## Run the tests of the checks once for each mutant of cargo-mutants, and list those that survive (half an hour)
	@command -v cargo-mutants >/dev/null || $(CARGO) install --quiet --locked cargo-mutants
	nice $(CARGO) run --quiet --locked --package mutants -- $(MUTANTS)

.PHONY: deny
deny: setup ## Licenses, sources and banned crates of all dependencies
	@command -v cargo-deny >/dev/null || $(CARGO) install --quiet --locked cargo-deny
	$(CARGO) deny check bans licenses sources

.PHONY: advisories
advisories: setup ## Known vulnerabilities of all dependencies (fetches the database of RustSec)
	@command -v cargo-deny >/dev/null || $(CARGO) install --quiet --locked cargo-deny
	$(CARGO) deny check advisories

.PHONY: generate
generate: setup ## Regenerate what is made from code: completions, manual page, JSON schema, protobuf
	UPDATE=1 $(CARGO) test --locked --bin cluster-health committed_files
	UPDATE_GEN=1 $(CARGO) test --locked --package talos-api --test codegen --quiet
	UPDATE_GEN=1 $(CARGO) test --locked --package codegen --quiet

# Kubernetes is linked once for each version: three minutes of two cores each. Its second run changes nothing.
.PHONY: knowledge
knowledge: ## Extract flags, feature gates and APIs from the modules of Kubernetes, etcd and Talos into src/checks/upgrade/knowledge (Go)
	cd tools/knowledge && go run . "$(abspath $(E2E_CACHE))/knowledge" ../../src/checks/upgrade/knowledge
	UPDATE=1 $(CARGO) test --locked --bin cluster-health upgrade::data

# Needs nothing but loopback.
.PHONY: etcd-hops
etcd-hops: ## Real etcd 3.5, 3.6 and 3.7 beside the tables of upgrade.etcd: which starts on whose data, and with which flags (Go)
	e2e/rig/build.sh etcd-3.5.35 etcd-3.6.8 etcd-3.6.16 etcd-3.7.3
	e2e/etcd-hops

.PHONY: release
release: setup ## Build the static binary and verify that it is static
	@tools/setup musl
	$(CARGO) build --locked --release --target $(TARGET)
	@tools/static $(BINARY)

.PHONY: install
install: setup ## Build and install the program, its completions and its manual page below PREFIX
	$(CARGO) build --locked --profile $(PROFILE) --package cluster-health
	install -d $(addprefix "$(DESTDIR)$(PREFIX)"/,bin $(SHARED:%=share/%))
	install -m 755 "$(BUILT)/$(PROFILE)/cluster-health" "$(DESTDIR)$(PREFIX)/bin"
	install -m 644 man/cluster-health.1 "$(DESTDIR)$(PREFIX)/share/man/man1"
	install -m 644 completions/cluster-health.bash "$(DESTDIR)$(PREFIX)/share/bash-completion/completions/cluster-health"
	install -m 644 completions/_cluster-health "$(DESTDIR)$(PREFIX)/share/zsh/site-functions"
	install -m 644 completions/cluster-health.fish "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"

.PHONY: dist
dist: setup ## Make a release for Linux: archives, packages, image, bills of materials, digests (static, x86_64 and aarch64)
	@TOOLS=$(DIST_TOOLS) tools/setup dist
	dist/build $(DIST) --tools $(DIST_TOOLS) $(DIST_OPTIONS)

.PHONY: dist-check
dist-check: setup ## Install, run and remove what `make dist` has made, aarch64 under qemu (root)
	@tools/setup packages
	$(CARGO) build --locked --profile demo --package simulator
	dist/check $(DIST) --simulator $(BUILT)/demo/simulator

.PHONY: reproducible
reproducible: setup ## Make a release of the commit twice, in two folders, and compare every byte
	@TOOLS=$(DIST_TOOLS) tools/setup dist
	dist/reproducible $(BUILT)/reproducible --tools $(DIST_TOOLS) $(DIST_OPTIONS)

.PHONY: install-check
install-check: setup ## Install from source as a stranger does: from elsewhere, without protoc, with etcd-client and without it
	tools/install-check

.PHONY: msrv
msrv: ## Compile with the oldest Rust that Cargo.toml promises
	tools/msrv

.PHONY: darwin
darwin: setup ## Compile for macOS, all but the linking (zig)
	@TOOLS=$(DIST_TOOLS) tools/setup dist
	tools/darwin $(DIST_TOOLS)

.PHONY: gitlab-component
gitlab-component: ## Lay out integrations/gitlab as a project of its own, in $(BUILT)/gitlab-component
	tools/gitlab-component $(BUILT)/gitlab-component

.PHONY: e2e
e2e: build ## Run against real clusters, and compare the simulator with Talos's (root, Go; 13 minutes once built)
	@tools/setup e2e
	e2e/rig/rig.sh setup
	e2e/rig/build.sh k8s
	$(CARGO) build --locked --package simulator
	e2e/run --simulator $(BUILT)/debug/simulator $(E2E_BINARY)
	e2e/interrupted $(E2E_BINARY)

.PHONY: etcd-users
etcd-users: build ## Run against real etcd with users and passwords: 3.5, 3.6 and 3.7 (Go; a minute once built)
	e2e/rig/build.sh etcdctl $(shell e2e/etcd-users --versions | sed 's/[^ ]*/etcd-&/g')
	e2e/etcd-users $(E2E_BINARY)

.PHONY: e2e-full
e2e-full: release ## All real states, talosctl health beside each; resumes, and rewrites e2e/results.json and docs/e2e.md (95 minutes)
	@tools/setup e2e
	e2e/rig/rig.sh setup
	e2e/rig/build.sh k8s
	TALOS=1.12.6 e2e/rig/build.sh
	TALOS=1.13.0 e2e/rig/build.sh
	KUBERNETES=1.34.4 e2e/rig/build.sh k8s
	KUBERNETES=1.36.3 e2e/rig/build.sh k8s
	KUBERNETES=1.37.2 e2e/rig/build.sh k8s
	e2e/removed
	@# The image of a row has root certificates from a package that no build for Linux needs, and there is no network inside of the cluster.
	$(CARGO) fetch --locked
	e2e/run --full --resume $(BINARY)
	e2e/run --table docs/e2e.md

.PHONY: coverage-real
coverage-real: build ## Show for each check a real state in which it passed and one in which it failed, from the results of e2e-full
	e2e/run --coverage $(BUILT)/debug/cluster-health

.PHONY: e2e-record
e2e-record: setup ## Store the real cluster's raw answers to every call, per state, in e2e/recordings
	@tools/setup e2e
	$(CARGO) build --locked --features record --target-dir target/record
	e2e/rig/rig.sh setup
	e2e/run --record e2e/recordings target/record/debug/cluster-health

.PHONY: figures
figures: release ## Measure a healthy run beside talosctl and kubectl on the real cluster; rewrites docs/performance.md
	@tools/setup e2e
	e2e/rig/rig.sh setup
	e2e/run --figures --write docs/performance.md $(BINARY)

.PHONY: bench
bench: release ## Measure beside talosctl against simulated clusters of 3 to 1000 nodes; rewrites docs/performance.md
	@tools/setup e2e
	e2e/rig/build.sh talosctl
	$(CARGO) build --locked --profile fast --package simulator
	e2e/performance bench --write docs/performance.md $(BUILT)/fast/simulator $(BINARY)

.PHONY: builds
builds: setup ## Build the release in other ways, and measure size, instructions and memory; rewrites docs/performance.md (an hour)
	@tools/setup musl
	@tools/setup valgrind
	$(CARGO) build --locked --profile fast --package simulator
	e2e/performance builds --write docs/performance.md $(BUILT)/fast/simulator

.PHONY: sizes waits fleet
sizes: release ## Measure runs over simulated clusters of 3 to 20,000 nodes, healthy, half in trouble and before an upgrade; rewrites docs/performance.md
waits: release ## Measure two waits of five minutes over 100 simulated nodes; rewrites docs/performance.md
fleet: release ## Measure 200 simulated clusters and the merging of their reports; rewrites docs/performance.md
sizes waits fleet:
	$(CARGO) build --locked --profile fast --package simulator
	e2e/performance $@ --write docs/performance.md $(BUILT)/fast/simulator $(BINARY)

.PHONY: performance
performance: perf bench waits sizes fleet builds ## All figures of docs/performance.md, one after the other (two hours)

.PHONY: perf
perf: setup ## Hold the instructions of a round over 3, 100 and 1000 simulated nodes against perf/budget.toml (valgrind; UPDATE=1 rewrites it)
	@tools/setup valgrind
	$(CARGO) build --locked --profile fast --package simulator --package cluster-health
	e2e/performance perf $(if $(UPDATE),--update) $(BUILT)/fast/simulator $(BUILT)/fast/cluster-health perf/budget.toml

.PHONY: clean
clean: ## Remove what was built here (not the cache of make e2e)
	$(CARGO) clean
