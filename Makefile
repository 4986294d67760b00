# evictd. `make help` lists what there is; CI runs verify, test, test-api and e2e (.ci/run).

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# One set of flags for all that is compiled but under the race detector, so that a dependency is compiled
# once, and for all checkouts.
export CGO_ENABLED := 0
ifeq ($(findstring -trimpath,$(GOFLAGS)),)
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)
endif

# The version of evictd, of its image and of its chart.
VERSION := $(shell cat $(CURDIR)/VERSION)
# The source that is built; empty outside of a git checkout.
COMMIT := $(shell git describe --tags --always --dirty 2>/dev/null)
REVISION := $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null)
# The image's time, in seconds since 1970: that of the commit, so that two builds are equal.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
# The name of the image in the manifests, which 'make generate' writes there. It cannot be pulled by
# accident: RFC 2606 reserves the domain. IMAGE_TAG is a tag of it, or a whole name:tag, which is taken
# as it is.
IMAGE_NAME := registry.example/evictd/evictd
IMAGE_TAG ?= $(VERSION)
IMAGE_REF := $(if $(or $(findstring /,$(IMAGE_TAG)),$(findstring :,$(IMAGE_TAG))),$(IMAGE_TAG),$(IMAGE_NAME):$(IMAGE_TAG))
IMAGE_ARCHITECTURES := amd64 arm64
IMAGE_FLAGS = --ref '$(IMAGE_REF)' --version $(VERSION) --revision '$(REVISION)' --created $(SOURCE_DATE_EPOCH)
# What packs runs here, also where GOOS and GOARCH are set to build for another platform.
HOST_GO := GOOS=$(shell go env GOHOSTOS) GOARCH=$(shell go env GOHOSTARCH) go
BIN := $(CURDIR)/bin
# What needs no rebuild in another checkout is kept here, by a stamp of what it is built from. It may be
# deleted at any time.
EVICTD_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/evictd
export EVICTD_CACHE
TOOLS := $(EVICTD_CACHE)/tools-$(shell cat $(CURDIR)/tools/go.mod $(CURDIR)/tools/go.sum <(go version) | sha256sum | cut -c1-16)
CLUSTER_BIN := $(BIN)/cluster
# Modules with code of their own. The other go.mod files only pin what is built
# from elsewhere.
MODULES := . test test/chart test/cluster test/image test/parity
# What 'make generate' writes, or writes lines of.
GENERATED := docs/configuration.md docs/metrics.md docs/install.md deploy/chart/evictd/README.md deploy/monitoring/prometheusrule.yaml \
	deploy/daemonset.yaml deploy/chart/evictd/values.yaml deploy/chart/evictd/Chart.yaml Dockerfile
# Packages that start goroutines: their tests run under the race detector. So do those of the loop in which
# the goroutines of others meet it; all others in make test-long.
RACE := $(addprefix github.com/evictd/evictd/,cmd/evictd internal/acting internal/execute internal/filetree \
	internal/hostinfo internal/httpd internal/measure internal/nodepods internal/state pkg/pressure)
RACE_LOOP := 'Invariant09|Reload|Wake|Acting|Taint|Request|Answer|Plan|Stop|TheLoop|CalmNode'
# Only ends a run that hangs: the default, 10 minutes, is less than a slow machine may need.
TIMEOUT := -timeout 60m
# Runs targets whatever failed before, and prints one table at the end.
STAGES = @test/stages/run
# Where stages wants the events of all tests, each run has a file of its own.
JSONFILE = $(if $(TEST_RESULTS),--jsonfile $$(mktemp $(TEST_RESULTS)/XXXXXX.json))
# Prints a line for each package, and at the end every failure and every skip with
# its reason, counted. Each run runs: Go's cache of results knows no file outside of a module, such as
# deploy/ for test/chart, and no program that a test starts.
GOTEST = $(TOOLS)/gotestsum --format pkgname $(JSONFILE) -- -count=1 $(TIMEOUT)
# The same with a line for each test.
GOTEST_VERBOSE = $(TOOLS)/gotestsum --format testname $(JSONFILE) -- -count=1 $(TIMEOUT)
# The files of tests and the data of API servers are in memory where there is room for it and programs may run there: etcd waits
# for each write, on a busy disk for long.
FAST_TMP := $(shell free=$$(df --output=avail -m /dev/shm 2>/dev/null | tail -1); \
	if [ -w /dev/shm ] && [ "$${free:-0}" -ge 4096 ] && ! grep -qE '^[^ ]+ /dev/shm [^ ]+ [^ ]*noexec' /proc/mounts; then echo TMPDIR=/dev/shm; fi)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.revision=$(COMMIT)
# Without the stamp of the checkout: a binary depends on its source, not on how that was fetched.
GOBUILD = go build -buildvcs=false -ldflags '$(LDFLAGS)'

.PHONY: help
help: ## This list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/evictd, static
	$(GOBUILD) -o $(BIN)/evictd ./cmd/evictd

.PHONY: try
try: build ## Watch it work on invented nodes, in the terminal: three scenarios of examples/scenarios (no root, no cluster)
	@for scenario in reserved leak budget; do $(BIN)/evictd simulate examples/scenarios/$$scenario.yaml --compare kubelet && echo; done

.PHONY: image
image: image-archive image-layout ## The image, without an engine: bin/evictd-image.tar of this platform, bin/evictd-oci of all, SBOMs

# What the tests import: it does not wait for the build for other platforms.
.PHONY: image-archive
image-archive: build ## bin/evictd-image.tar alone, a docker-archive
	cd test/image && $(HOST_GO) run . archive $(IMAGE_FLAGS) --binary $(BIN)/evictd --output $(BIN)/evictd-image.tar

.PHONY: image-layout
image-layout: ## bin/evictd-oci alone, an OCI image layout for linux/amd64 and linux/arm64, and the SBOM of each
	for architecture in $(IMAGE_ARCHITECTURES); do \
		GOOS=linux GOARCH=$$architecture $(GOBUILD) -o $(BIN)/image/linux-$$architecture/evictd ./cmd/evictd; \
	done
	cd test/image && $(HOST_GO) run . layout $(IMAGE_FLAGS) --output $(BIN)/evictd-oci \
		$(foreach architecture,$(IMAGE_ARCHITECTURES),linux/$(architecture)=$(BIN)/image/linux-$(architecture)/evictd)

# REGISTRY=host[:port]/repository, with the tag IMAGE_TAG; or IMAGE_TAG=host/repository:tag alone.
.PHONY: image-push
image-push: needs-registry image-layout ## Push bin/evictd-oci to REGISTRY=host[:port]/repository, and print how to install it by its digest
	@cd test/image && $(HOST_GO) run . push --layout $(BIN)/evictd-oci --manifest-name $(IMAGE_NAME) \
		--ref '$(if $(REGISTRY),$(REGISTRY):$(lastword $(subst :, ,$(IMAGE_TAG))),$(IMAGE_REF))'

# A plugin's version in Krew is v1.2.3; DOWNLOADS is where its archives will be.
.PHONY: krew
krew: ## bin/krew: the kubectl plugin's archive and its Krew manifest (KREW_VERSION, DOWNLOADS and HOMEPAGE: URLs)
	rm -rf $(BIN)/krew && mkdir -p $(BIN)/krew
	tar -C deploy/krew --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -c kubectl-evictd -C $(CURDIR) LICENSE | gzip -n >$(BIN)/krew/kubectl-evictd.tar.gz
	sed -e '/^#/d' -e 's|@VERSION@|$(or $(KREW_VERSION),$(VERSION))|' -e 's|@DOWNLOADS@|$(or $(DOWNLOADS),https://evictd.example/$(VERSION))|' \
		-e 's|@HOMEPAGE@|$(or $(HOMEPAGE),https://evictd.example)|' \
		-e "s|@SHA256@|$$(sha256sum $(BIN)/krew/kubectl-evictd.tar.gz | cut -d' ' -f1)|" deploy/krew/evictd.yaml >$(BIN)/krew/evictd.yaml

.PHONY: tools
tools: linter test-runner $(TOOLS)/govulncheck ## Build the pinned golangci-lint, gotestsum and govulncheck, once for all checkouts

.PHONY: linter test-runner
linter: $(TOOLS)/golangci-lint
test-runner: $(TOOLS)/gotestsum
$(TOOLS)/golangci-lint:
	go -C tools build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(TOOLS)/gotestsum:
	go -C tools build -o $@ gotest.tools/gotestsum
$(TOOLS)/govulncheck:
	go -C tools build -o $@ golang.org/x/vuln/cmd/govulncheck

.PHONY: cluster-build
cluster-build: ## Build etcd and the control plane from their Go modules (about 9 minutes cold on 2 cores, seconds warm)
	test/cluster/build.sh $(CLUSTER_BIN)

.PHONY: node-build
node-build: ## As cluster-build, and the scheduler, kubelet and containerd
	test/cluster/build.sh $(CLUSTER_BIN) node

# The gate: the targets of .ci/run. docs/development.md says what each shows.
.PHONY: test
test: ## Unit tests, the chart, parity with the kubelet, black-box cases (no root, no cluster; three minutes)
	$(STAGES) test-unit test-tools test-race test-race-loop test-parity test-chart test-cases

.PHONY: test-unit test-tools test-race test-race-loop test-parity test-chart test-cases
test-unit: test-runner
	$(FAST_TMP) $(GOTEST) -short $(filter-out $(RACE),$(shell go list ./...))
test-tools: test-runner
	cd test && $(GOTEST) ./bench/... ./cgroup2/... ./demo/... ./gendoc/... ./internal/... ./stages/... && cd cluster && $(GOTEST) .
test-race: needs-gcc test-runner
	$(FAST_TMP) CGO_ENABLED=1 $(GOTEST) -race -short $(RACE)
test-race-loop: needs-gcc test-runner
	CGO_ENABLED=1 $(GOTEST) -race -short -run $(RACE_LOOP) ./internal/agent ./internal/sim
test-parity: test-runner
	cd test/parity && $(GOTEST) -short ./...
test-chart: test-runner
	cd test/chart && $(GOTEST) .
test-cases: test-runner build
	cd test && EVICTD_BIN=$(BIN)/evictd $(GOTEST) ./cases/...

.PHONY: test-api
test-api: test-runner cluster-build ## Tests against a real API server (no root; two minutes)
	cd test && $(FAST_TMP) EVICTD_CLUSTER_BIN=$(CLUSTER_BIN) $(GOTEST_VERBOSE) -short -parallel 4 ./api/...

# On purpose: each appends a line to docs/test-results.md, also when it fails.
.PHONY: e2e-all
e2e-all: needs-root needs-no-run ## All end-to-end tests (root; 16 minutes)
	$(STAGES) --record e2e-all e2e-every

.PHONY: test-faults
test-faults: ## API servers that fail, kill -9 of evictd (no root; four minutes)
	$(STAGES) --record test-faults test-faults-every

.PHONY: test-release
test-release: needs-root ## The images, both architectures, the chart on a server and a node, lint of all modules, vulnerabilities (root)
	$(STAGES) --record test-release verify-lint-all verify-vuln test-image test-arm64 test-chart-server test-alerts test-helm krew

.PHONY: test-long
test-long: ## The unit tests with all their random inputs and the race detector, 10,000 scenarios, 100,000 states of parity
	$(STAGES) --record test-long test-race-all test-race-again test-scenarios parity test-parity-all

.PHONY: nightly
nightly: needs-root ## All of these, cgroup v2, fuzzers, half an hour of soak, short benchmarks (root; hours)
	$(STAGES) --record nightly e2e-all test-faults test-release test-long test-cgroup2 e2e-cgroup2 fuzz-long soak bench-short

.PHONY: e2e-every test-faults-every test-parity-all test-image test-chart-server test-alerts test-helm test-race-all test-race-again test-scenarios fuzz-long bench-short
e2e-every:
	EVICTD_PATIENCE=5 RUN=. $(MAKE) e2e
test-faults-every: needs-gcc test-runner cluster-build
	cd test && $(FAST_TMP) EVICTD_RACE=1 EVICTD_CLUSTER_BIN=$(CLUSTER_BIN) $(GOTEST_VERBOSE) -parallel 4 ./faults/...
test-scenarios: test-runner
	$(GOTEST) -run 'RandomScenarios|ReplayDecides' ./internal/sim -scenarios=10000 -seed=$$(date +%s) -replays=1000
test-image: test-runner
	cd test/image && $(GOTEST) ./...
test-chart-server: test-runner cluster-build
	cd test/chart && $(FAST_TMP) EVICTD_CLUSTER_BIN=$(CLUSTER_BIN) $(GOTEST) ./server
test-alerts:
	test/cluster/build.sh $(CLUSTER_BIN) prometheus
	$(CLUSTER_BIN)/promtool check rules --lint=all --lint-fatal deploy/monitoring/alerts.yaml
	$(CLUSTER_BIN)/promtool test rules test/chart/testdata/alerts_test.yaml test/chart/testdata/alerts_weeks_test.yaml
test-helm:
	RUN=TestHelmOnARealNode $(MAKE) e2e
test-race-all: needs-gcc test-runner
	$(FAST_TMP) CGO_ENABLED=1 $(GOTEST) -race ./...
test-race-again: needs-gcc test-runner
	CGO_ENABLED=1 $(GOTEST) -race -count=3 ./internal/acting ./internal/execute ./internal/nodepods ./internal/taint
test-parity-all: test-runner
	cd test/parity && $(GOTEST) ./...
fuzz-long:
	FUZZTIME=5m $(MAKE) fuzz
bench-short:
	FILES=200000 $(MAKE) bench
	RUNS=3 RATES=1000 $(MAKE) bench-reaction
	WINDOW=10s $(MAKE) bench-idle

.PHONY: parity
parity: ## evictd's order against the kubelet's own eviction manager, on STATES (100000) generated node states
	cd test/parity && STATES=$${STATES:-100000} SEED=$${SEED:-$$(date +%s%N)} GOGC=400 go test -count=1 $(TIMEOUT) -v -run '^TestParity$$' .

# Debian's packages are unpacked into bin/vm and not installed: a kernel with busybox, a node's programs with all that
# they depend on, and qemu for programs of arm64.
define UNPACK
	rm -rf $@ $@.new && mkdir -p $@.new
	[ "$$(id -u)" != 0 ] || apt-get -q update
	cd $@.new && apt-get -q download $(1) && for package in *.deb; do dpkg-deb -x $$package . && rm $$package; done
endef
VM := $(BIN)/vm
# What a virtual machine needs, where this machine has no cgroup v2.
VM_FILES := $(if $(wildcard /sys/fs/cgroup/cgroup.controllers),,needs-qemu $(VM)/kernel)
$(VM)/kernel:
	$(call UNPACK,busybox-static $$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$$/\1/p' | head -1))
	$$(ls $@.new/bin/busybox $@.new/usr/bin/busybox 2>/dev/null | head -1) depmod -b $@.new $$(ls $@.new/boot | sed -n 's/^vmlinuz-//p')
	mv $@.new $@
$(VM)/node:
	$(call UNPACK,$$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces \
		--no-enhances runc e2fsprogs | grep '^[a-z0-9]' | sort -u))
	cd $@.new && for folder in bin sbin lib lib64; do [ -e $$folder ] || ln -s usr/$$folder $$folder; done
	mv $@.new $@
$(VM)/qemu-user:
	$(call UNPACK,qemu-user-static)
	mv $@.new $@

.PHONY: needs-qemu
needs-qemu:
	@command -v qemu-system-x86_64 >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get -q update \
		&& DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends qemu-system-x86; } \
		|| { echo "qemu-system-x86_64 is missing: apt-get install --no-install-recommends qemu-system-x86"; exit 1; }

# RUN=TestName runs some.
.PHONY: test-cgroup2
test-cgroup2: $(VM_FILES) ## Tests of pkg/pressure and pkg/usage on cgroup v2, in a virtual machine where there is none (root on v2, else once for qemu)
	test/cgroup2/run

# What runs a program for arm64 here.
ifneq ($(shell go env GOHOSTARCH),arm64)
ARM64 = $(or $(shell command -v qemu-aarch64-static),$(VM)/qemu-user/usr/bin/qemu-aarch64-static)
endif
.PHONY: test-arm64
test-arm64: image-layout $(if $(filter $(VM)/%,$(ARM64)),$(VM)/qemu-user) ## evictd for arm64, under qemu in user mode where this machine is none (downloads qemu from Debian's packages)
	$(ARM64) $(BIN)/image/linux-arm64/evictd version | grep -E '^evictd $(VERSION) .* linux/arm64\)$$'
	$(ARM64) $(BIN)/image/linux-arm64/evictd rank --snapshot cmd/evictd/testdata/rank/worker-1.json | diff cmd/evictd/testdata/rank/table.txt -

# Helm and Prometheus. The seven tests of make e2e do not use them; some of RUN=. do.
.PHONY: e2e-programs
e2e-programs:
	test/cluster/build.sh $(CLUSTER_BIN) prometheus
	go build -C test/chart -o $(CLUSTER_BIN)/helm helm.sh/helm/v4/cmd/helm

# RUN=TestName runs some of all.
.PHONY: e2e
e2e: needs-node test-runner node-build image-archive $(if $(RUN),e2e-programs) ## The shipped manifest on a real kubelet: seven tests (root; RUN=TestName runs another, RUN=. all)
	cd test && EVICTD_CLUSTER_BIN=$(CLUSTER_BIN) EVICTD_IMAGE=$(BIN)/evictd-image.tar EVICTD_BIN=$(BIN)/evictd \
		$(GOTEST_VERBOSE) -tags $${RUN:+e2e_all,}e2e -timeout 90m -run "$${RUN:-.}" ./e2e/...

# RUN=. runs all of them, RUN=TestName some.
.PHONY: e2e-cgroup2
e2e-cgroup2: node-build image-archive $(if $(RUN),e2e-programs) $(VM_FILES) $(if $(VM_FILES),$(VM)/node) ## The tests of make e2e on cgroup v2, in a virtual machine where there is none (root on v2, else once for qemu; RUN=.)
	RUN="$${RUN:-^($$(go -C test test -tags e2e -list . ./e2e | grep '^Test' | paste -sd '|'))\$$}" test/cgroup2/run node

# SEED repeats the order of a run, ONLY=1,10 plays some scenarios of bench-incidents.
.PHONY: soak
soak: needs-node node-build image-archive ## Rounds of incidents and faults with one evictd for DURATION (30m): no wrong victim, no growth (root)
	cd test && EVICTD_CLUSTER_BIN=$(CLUSTER_BIN) EVICTD_IMAGE=$(BIN)/evictd-image.tar EVICTD_BIN=$(BIN)/evictd \
		go run ./bench/incidents --soak $${DURATION:-30m} --only "$${ONLY:-}" $${SEED:+--seed $$SEED}

.PHONY: demo
demo: needs-root ## Watch it work: a real node, real pressure, real evictions (root; PICTURE=FILE.svg records it)
	@test/demo/check $(CLUSTER_BIN)
	@$(MAKE) --no-print-directory needs-node node-build image-archive
	@[ -z "$${SUDO_UID:-}" ] || find $(BIN) ! -path '$(CLUSTER_BIN)/*' -exec chown -h "$$SUDO_UID:$$SUDO_GID" {} + # a later make without root replaces these files
	@test/demo/run $(CLUSTER_BIN) $(BIN)/evictd-image.tar $(BIN)/evictd $(if $(PICTURE),| test/demo/picture $(PICTURE))

.PHONY: bench
bench: ## Benchmarks with allocations, and a table of those with a budget
	go test -run '^$$' -bench . -benchmem $(TIMEOUT) ./pkg/... ./internal/... | awk -f test/bench/table/table.awk
	cd test/parity && go test -run '^$$' -bench . $(TIMEOUT) .
	$(MAKE) --no-print-directory bench-disk

.PHONY: bench-record
bench-record: ## What the record of a calm node of 110 pods costs: CPU for a second, and disk for a day
	go test -run '^$$' -bench CalmHour -benchmem $(TIMEOUT) ./internal/history

# FILES=200000 makes it shorter; DIR is a directory on a real disk with 6 GB free.
.PHONY: bench-disk
bench-disk: ## The walk over a million files of 110 pods beside du -s (cold figures as root; five minutes)
	cd test && go test -run '^$$' -bench . -benchtime 5x $(TIMEOUT) ./bench/disk

# RUNS, RATES (MB/s) and PODS make it shorter: make bench-reaction RUNS=3 RATES=1000 PODS=20
# EVICTDS=5 has evictd's turn five times for each of the kubelet's: a percentile needs many.
# SETTLE=80s rests before each run, so that the kernel's per-CPU lists are short. CPUS=10m,50m compares CPU requests of
# evictd, without a limit and while all CPUs are in use.
.PHONY: bench-reaction
bench-reaction: needs-node node-build image-archive ## From a threshold's crossing to the eviction, evictd and kubelet, on a real node (root, half an hour; RUNS=20)
	cd test && EVICTD_CLUSTER_BIN=$(CLUSTER_BIN) EVICTD_IMAGE=$(BIN)/evictd-image.tar EVICTD_BIN=$(BIN)/evictd \
		go run ./bench/reaction --runs $${RUNS:-20} --evictds $${EVICTDS:-1} --rates $${RATES:-100,300,1000} --pods $${PODS:-110} --settle $${SETTLE:-0s} --cpus "$${CPUS:-}"

# ONLY=3,4 runs some, RUNS=1 fewer times, ARMS=evictd one arm. Results are kept in RESULTS, and what has one of the same
# source is not run again: so a series can be finished in pieces. TABLE=1 only makes the table (PAGE), and its
# summary (SUMMARY).
# SOURCE names all that a result depends on, that is evictd, what is shipped, the node and the benchmark, by the last
# commit that changed it: later commits of tests, documentation, the table, the soak and the ports have the same.
# -dirty: not committed.
MEASURED = cmd internal pkg deploy go.mod go.sum $(addprefix test/,go.mod go.sum bench/incidents cluster image \
	internal/eventually internal/measure internal/memory internal/node internal/pages internal/rig) \
	$(foreach left,test/bench/incidents/soak.go test/bench/incidents/table.go test/cluster/ports.go *_test.go *.md */testdata/*,':!$(left)')
SOURCE = $(shell git log -1 --format=%h --abbrev=12 -- $(MEASURED))$(if $(shell git status --porcelain --untracked-files=all -- $(MEASURED)),-dirty)
.PHONY: bench-incidents
bench-incidents: needs-node node-build image-archive ## The same incidents, the kubelet alone and with evictd, on a real node (root, hours; ONLY=1 RUNS=1: three minutes)
	cd test && EVICTD_CLUSTER_BIN=$(CLUSTER_BIN) EVICTD_IMAGE=$(BIN)/evictd-image.tar EVICTD_BIN=$(BIN)/evictd \
		go run ./bench/incidents --runs $${RUNS:-3} --only "$${ONLY:-}" --arms "$${ARMS:-kubelet,evictd,evictd-node}" \
		--results "$${RESULTS:-$(BIN)/incidents}" --page "$${PAGE:-}" --summary "$${SUMMARY:-}" --commit $(or $(COMMIT),devel) --source "$(SOURCE)" $${TABLE:+--table}

.PHONY: bench-idle
bench-idle: needs-root cluster-build build ## CPU and memory of a calm evictd beside 110 pods (root, ten minutes; WINDOW=60s)
	cd test && EVICTD_CLUSTER_BIN=$(CLUSTER_BIN) EVICTD_BIN=$(BIN)/evictd \
		go run ./bench/idle --window $${WINDOW:-60s}

# Make it shorter: make bench-agents AGENTS=20 PODS=3 WINDOW=20s.
.PHONY: bench-agents
bench-agents: cluster-build build ## What many calm agents cost one API server, in CPU time and memory (AGENTS=200; some minutes)
	cd test && EVICTD_CLUSTER_BIN=$(CLUSTER_BIN) EVICTD_BIN=$(BIN)/evictd \
		go run ./bench/idle --agents $${AGENTS:-200} --pods $${PODS:-10} --window $${WINDOW:-60s}

# Minimizing what is merely interesting takes up to a minute for one input by default,
# and nothing else is tried meanwhile.
.PHONY: fuzz
fuzz: ## Each fuzzer for FUZZTIME (10s)
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $${FUZZTIME:-10s} -fuzzminimizetime 100x $(TIMEOUT) $$package; \
		done; \
	done

.PHONY: generate
generate: ## Write the generated pages again, and the name of the image and the version in the manifests
	go generate ./...
	go test -count=1 $(TIMEOUT) -run '^TestMetricsDoc$$' ./internal/record -update >/dev/null
	cd test/chart && go test -count=1 $(TIMEOUT) -run '^Test(PrometheusRule|ReadmeHasEachValue)$$' . -update >/dev/null
	sed -i -E 's|^( +image: ).*|\1$(IMAGE_NAME):$(VERSION)|' deploy/daemonset.yaml
	sed -i -E 's|^(  repository: ).*|\1$(IMAGE_NAME)|' deploy/chart/evictd/values.yaml
	sed -i -E 's|^(version: ).*|\1$(VERSION:v%=%)|; s|^(appVersion: ).*|\1$(VERSION)|' deploy/chart/evictd/Chart.yaml
	sed -i -E 's|^(ARG VERSION=).*|\1$(VERSION)|' Dockerfile
	sed -i -E 's|^(- \{name: )[^,]*(.* newTag: ).*\}$$|\1$(IMAGE_NAME)\2$(VERSION)}|' docs/install.md

.PHONY: fmt
fmt: linter ## Format everything
	for module in $(MODULES); do (cd $$module && $(TOOLS)/golangci-lint fmt --config $(CURDIR)/.golangci.yml); done

.PHONY: update
update: generate fmt ## What cures a failed verify: tidy, generate, format
	for module in $(MODULES) tools; do (cd $$module && go mod tidy); done

.PHONY: verify
verify: ## go mod tidy, generated pages, manifest, chart, links, lines of the product, size of the binary; format, vet and lint of the modules that a change touches
	$(STAGES) verify-tidy verify-generate verify-manifest verify-links verify-loc verify-size verify-lint

.PHONY: verify-links
verify-links:
	@go test -count=1 $(TIMEOUT) -run '^TestLinksOfTheDocuments$$' ./cmd/evictd

.PHONY: verify-tidy
verify-tidy:
	@for module in $(MODULES) tools; do \
		(cd $$module && go mod tidy -diff >/dev/null) || { echo "$$module/go.mod is not tidy: run 'make update'"; exit 1; }; \
	done
	@echo "go.mod: tidy"

.PHONY: verify-generate
verify-generate:
	@before=$$(mktemp -d) && trap 'rm -rf "$$before"' EXIT && cp --parents $(GENERATED) "$$before" && $(MAKE) --no-print-directory -s generate \
		&& for file in $(GENERATED); do \
			cmp -s "$$before/$$file" $$file || { echo "$$file was out of date and has been written again: commit it"; exit 1; }; \
		done
	@echo "generated files: up to date"

# A change is what differs from main; on main itself, its last ten commits. Where git knows neither, it is
# everything. A change to evictd touches test, which imports it.
.PHONY: verify-lint
verify-lint: linter
	@files() { case $$1 in \
		.) echo cmd internal pkg go.mod go.sum;; \
		test) echo cmd internal pkg go.mod go.sum test :!test/chart :!test/image :!test/parity;; \
		test/chart|test/image) echo $$1 test/cluster;; \
		test/parity) echo $$1 cmd internal pkg go.mod go.sum;; \
		*) echo $$1;; esac; }; \
	since=$$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || true); \
	[ "$$since" != "$$(git rev-parse HEAD 2>/dev/null)" ] || since=$$(git rev-parse -q --verify HEAD~10 || true); \
	failed=0; for module in $(MODULES); do \
		if [ -n "$$since" ] && [ -z "$$(git diff --name-only $$since -- .golangci.yml $$(files $$module); git ls-files -o --exclude-standard $$(files $$module))" ]; \
		then echo "golangci-lint and go vet: $$module: not touched"; \
		else $(MAKE) --no-print-directory -s lint-module MODULE=$$module || failed=1; fi; \
	done; exit $$failed

.PHONY: verify-lint-all lint-module
verify-lint-all:
	@for module in $(MODULES); do $(MAKE) --no-print-directory -s lint-module MODULE=$$module; done
lint-module: linter
	@echo "golangci-lint and go vet: $(MODULE)"
	@(cd $(MODULE) && go vet -tags e2e ./... && go vet -tags e2e_all ./... && $(TOOLS)/golangci-lint fmt --diff --config $(CURDIR)/.golangci.yml \
		&& $(TOOLS)/golangci-lint run --allow-serial-runners --config $(CURDIR)/.golangci.yml) || { echo "run 'make update', then fix what is left"; exit 1; }

.PHONY: verify-manifest
verify-manifest: ## The shipped configuration validates, and the chart gives the same objects as deploy/
	@go test -count=1 $(TIMEOUT) -run TestShippedManifest ./cmd/evictd >/dev/null || { echo "deploy/daemonset.yaml: go test -run TestShippedManifest ./cmd/evictd says what is wrong"; exit 1; }
	@echo "deploy/daemonset.yaml: valid"
	@cd test/chart && go test -count=1 $(TIMEOUT) -run '^Test(ChartAndKustomize|Schema|Values|EachValue)' . >/dev/null || { echo "deploy/chart/evictd differs from deploy/: 'cd test/chart && go test .' says where"; exit 1; }
	@echo "deploy/chart/evictd: gives the objects of deploy/"

.PHONY: verify-vuln
verify-vuln: $(TOOLS)/govulncheck ## Known vulnerabilities; skipped, with the reason, where the database cannot be reached
	@out=$$($(TOOLS)/govulncheck ./... 2>&1) && { echo "govulncheck: nothing found"; exit 0; }; \
	if grep -qiE 'fetching vulnerabilities|dial tcp|no such host|connection refused|403 Forbidden|i/o timeout' <<<"$$out"; then \
		echo "govulncheck: skipped, its database cannot be reached from here: $$(tail -1 <<<"$$out")"; \
	else echo "$$out"; exit 1; fi

.PHONY: needs-registry
needs-registry:
	@[ -n "$(REGISTRY)" ] || [ '$(IMAGE_REF)' = '$(IMAGE_TAG)' ] || { echo "name REGISTRY=host[:port]/repository, or IMAGE_TAG=host/repository:tag"; exit 1; }

.PHONY: needs-root needs-node needs-gcc needs-no-run
needs-no-run:
	@[ -z "$${RUN:-}" ] || { echo "make e2e-all records all tests: run some by 'make e2e RUN=$$RUN'"; exit 1; }
needs-root:
	@[ "$$(id -u)" = 0 ] || { echo "this needs root: a real kubelet and containerd make cgroups and mounts"; exit 1; }
	@[ "$$(uname -s)" = Linux ] || { echo "this needs Linux"; exit 1; }
	@command -v go >/dev/null || { echo "go is not on root's PATH, which sudo sets; run: sudo env \"PATH=\$$PATH\" make TARGET"; exit 1; }
# What no Go module builds.
needs-node: needs-root
	@export PATH="$$PATH:/usr/local/sbin:/usr/sbin:/sbin"; { command -v runc && command -v mkfs.ext4; } >/dev/null || { [ -f /etc/debian_version ] \
		&& echo "Installing Debian's packages runc and e2fsprogs, which stay on this machine." && apt-get -q update \
		&& DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends runc e2fsprogs; } \
		|| { echo "a node needs runc and mkfs.ext4; on Debian: apt-get install runc e2fsprogs"; exit 1; }
needs-gcc:
	@command -v gcc >/dev/null || { echo "gcc is missing: the race detector needs it (Debian: apt-get install gcc libc6-dev)"; exit 1; }

# The ratchet: a commit that takes lines away lowers it, and none raises it. The house ended at 20,000. What people
# expect around an agent may take 900 more: the command line, validation by line, Events, annotations, taints and the
# address of the document took 701. The black box may take 2,000 more: evictd simulate took 461, and the record with its
# replay 1,539.
LOC_MAX := 22613
.PHONY: loc verify-loc
loc: ## Lines of the product by package: Go below cmd, internal and pkg, without tests, internal/testing and internal/sim; fails above LOC_MAX
	@find cmd internal pkg \( -path internal/testing -o -path internal/sim \) -prune -o -name '*.go' ! -name '*_test.go' -print | LC_ALL=C sort | xargs awk ' \
		{d = FILENAME; sub("/[^/]*$$", "", d); if (!(d in n)) order[++packages] = d; n[d]++} \
		END {for (i = 1; i <= packages; i++) printf "%6d  %s\n", n[order[i]], order[i]; printf "%6d  total\n", NR; \
			if (NR > $(LOC_MAX)) {printf "%d lines are more than LOC_MAX in the Makefile, $(LOC_MAX): take lines away\n", NR; exit 1}}'
verify-loc:
	@$(MAKE) --no-print-directory -s loc | tail -1

# A use of reflection by names, as of text/template, keeps methods in that the linker drops otherwise.
.PHONY: verify-size
verify-size: build
	@size=$$(stat -c %s $(BIN)/evictd); [ $$size -le 25000000 ] || { echo "bin/evictd has $$size bytes, more than 25 MB"; exit 1; }; echo "bin/evictd: $$size bytes"

.PHONY: clean
clean: ## Remove bin/
	rm -rf $(BIN)
