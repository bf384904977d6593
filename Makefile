# mash2: two commands do everything on a fresh Debian machine with Go:
#   make demo   the main job on an embedded, real control plane
#   make test   all tests
# Both install through apt what they need (root, or sudo).

SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := build

TAGS ?= lpsolve
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
OUT ?= out
TOOLS := $(CURDIR)/.cache/bin
# Karpenter's own program, that others are compared with; KARPENTER= leaves it out.
KARPENTER ?= $(TOOLS)/karpenter

GOTESTSUM_VERSION := v1.13.0
GOLANGCI_VERSION := v2.15.0
HELM_VERSION := v3.22.0
K6_VERSION := v1.8.1
METRICS_SERVER_VERSION := v0.9.0

# lp_solve's headers are in a folder of their own. CPATH instead of CGO_CFLAGS:
# it does not change the build cache's keys, so nothing recompiles over it.
export CPATH := /usr/include/lpsolve

SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
LDFLAGS := -X github.com/mash2-io/mash2/cmd/cli.version=$(VERSION)

.PHONY: help
help: ## what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# Packages from apt, without those they recommend: what apt says is in $(OUT)/apt.log, and
# shown where it fails.
apt = { echo "installing$(1) from apt (under a minute)"; mkdir -p $(OUT); \
	{ $(SUDO) apt-get update -qq && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get install -y -qq --no-install-recommends $(1); } > $(OUT)/apt.log 2>&1 || \
	{ tail -20 $(OUT)/apt.log >&2; echo "could not install$(1): install these packages by hand and run make again" >&2; exit 1; }; }

.PHONY: deps
deps: ## system packages: lp_solve, Prometheus
	@missing=; \
	[ -e /usr/include/lpsolve/lp_lib.h ] || missing="$$missing liblpsolve55-dev"; \
	command -v prometheus >/dev/null || missing="$$missing prometheus"; \
	command -v gcc >/dev/null || missing="$$missing gcc libc6-dev"; \
	[ -z "$$missing" ] || $(call apt,$$missing); \
	[ -z "$$(echo $$missing | grep prometheus)" ] || ! command -v systemctl >/dev/null || $(SUDO) systemctl disable --now prometheus >/dev/null 2>&1 || true

.PHONY: build
build: deps ## bin/mash2, with lp_solve
	@echo "building bin/mash2 (the first time two to four minutes, then seconds)"
	@go build -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/mash2 ./cmd/mash2

.PHONY: plugin
plugin: build ## bin/kubectl-mash2: with bin on the PATH, kubectl mash2 works
	ln -sf mash2 bin/kubectl-mash2

# The programs of images: nothing of the build's time or place is in them.
OS ?= linux
ARCH ?= $(shell go env GOARCH)
PROGRAM ?= $(OUT)/mash2-$(OS)-$(ARCH)
REPRODUCIBLE := -trimpath -buildvcs=false
STRIPPED := -s -w -buildid= $(LDFLAGS)
.PHONY: program
program: ## the program of an image, without C, for OS and ARCH
	@mkdir -p $(dir $(PROGRAM))
	CGO_ENABLED=0 GOOS=$(OS) GOARCH=$(ARCH) go build $(REPRODUCIBLE) -ldflags '$(STRIPPED)' -o $(PROGRAM) ./cmd/mash2-operator

# lp_solve is LGPL: linked dynamically. The library is in the package lp-solve.
LPSOLVE := /usr/lib/lp_solve
.PHONY: program-lpsolve
program-lpsolve: ## the same with lp_solve, for this machine's platform
	@mkdir -p $(dir $(PROGRAM))
	CGO_ENABLED=1 go build $(REPRODUCIBLE) -tags lpsolve \
		-ldflags '$(STRIPPED) -extldflags "-L$(LPSOLVE) -Wl,-rpath,$(LPSOLVE) -Wl,--build-id=none"' -o $(PROGRAM) ./cmd/mash2-operator

.PHONY: dist
dist: ## programs for amd64 and arm64, each with its bill of materials and checksum
	$(MAKE) program ARCH=amd64
	$(MAKE) program ARCH=arm64
	for p in amd64 arm64; do go run ./container/sbom $(OUT)/mash2-linux-$$p > $(OUT)/mash2-linux-$$p.cdx.json || exit 1; done
	cd $(OUT) && sha256sum mash2-linux-amd64 mash2-linux-arm64 > SHA256SUMS && cat SHA256SUMS

# Without a container engine. The same commit gives the same bytes.
PLATFORMS ?= amd64 arm64
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
.PHONY: oci
oci: ## the image as an OCI layout in out/oci, with bills of materials; its digest in out/oci.digest (cold: four minutes a platform)
	@for a in $(PLATFORMS); do \
		echo "building the program for $$a"; $(MAKE) --no-print-directory program ARCH=$$a PROGRAM=$(OUT)/mash2-linux-$$a || exit 1; \
		go run ./container/sbom $(OUT)/mash2-linux-$$a > $(OUT)/mash2-linux-$$a.cdx.json || exit 1; \
	done
	rm -rf $(OUT)/oci
	cd container/image && GOWORK=off go run . --out $(abspath $(OUT))/oci --version $(VERSION) --revision $(REVISION) --epoch $(SOURCE_DATE_EPOCH) \
		$(foreach a,$(PLATFORMS),--program linux/$(a)=$(abspath $(OUT))/mash2-linux-$(a)) > $(abspath $(OUT))/oci.digest
	@cat $(OUT)/oci.digest

# The second time from the commit's own files, in another folder, with an empty build cache.
.PHONY: oci-check
oci-check: ## the image built twice, the second time from nothing elsewhere: the same digest, or it fails (PLATFORMS=amd64: five minutes)
	$(MAKE) --no-print-directory oci
	rm -rf $(OUT)/again && mkdir -p $(OUT)/again/source && git archive HEAD | tar x -C $(OUT)/again/source
	GOCACHE=$(abspath $(OUT))/again/cache $(MAKE) --no-print-directory -C $(OUT)/again/source oci \
		VERSION=$(VERSION) REVISION=$(REVISION) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) PLATFORMS='$(PLATFORMS)'
	@cmp $(OUT)/oci.digest $(OUT)/again/source/out/oci.digest && diff -r $(OUT)/oci $(OUT)/again/source/out/oci && echo "built twice, the same bytes: $$(cat $(OUT)/oci.digest)"
	@rm -rf $(OUT)/again

.PHONY: chart
chart: $(TOOLS)/helm ## the chart linted and packaged into out
	@mkdir -p $(OUT)
	for v in values-gke.yaml values-kind.yaml; do \
		$(TOOLS)/helm lint --strict charts/mash2 --values charts/mash2/$$v --set prometheus.url=http://prometheus:9090,provider.gke.project=p,provider.gke.location=l,provider.gke.cluster=c || exit 1; \
	done
	$(TOOLS)/helm package charts/mash2 --destination $(OUT)

# Archives of the static command and the manifest of kubectl's plugin manager for them.
KREW ?= linux/amd64 linux/arm64 darwin/arm64
# krew takes nothing but semantic versions that begin with v. Expanded once: every platform
# has the same, whatever changes in the tree meanwhile.
KREW_VERSION := $(if $(filter v%,$(VERSION)),$(VERSION),v0.0.0-$(VERSION))
.PHONY: krew
krew: ## the command as an archive for each platform in KREW, and krew's manifest, in out/krew (cold: four minutes a platform)
	@rm -rf $(OUT)/krew && mkdir -p $(OUT)/krew
	@sed -e '/^PLATFORMS$$/d' -e 's/VERSION/$(KREW_VERSION)/' container/krew/mash2.yaml.tmpl > $(OUT)/krew/mash2.yaml
	@for p in $(KREW); do \
		os=$${p%/*}; arch=$${p#*/}; dir=$(OUT)/krew/$$os-$$arch; mkdir -p $$dir; \
		echo "building the command for $$p"; \
		$(MAKE) --no-print-directory program OS=$$os ARCH=$$arch PROGRAM=$$dir/kubectl-mash2 VERSION=$(KREW_VERSION) && cp LICENSE $$dir || exit 1; \
		archive=kubectl-mash2-$$os-$$arch.tar.gz; \
		tar -C $$dir --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner -cf - LICENSE kubectl-mash2 | gzip -n > $(OUT)/krew/$$archive || exit 1; \
		rm -r $$dir; \
		printf '    - selector: {matchLabels: {os: %s, arch: %s}}\n      uri: https://github.com/mash2-io/mash2/releases/download/%s/%s\n      sha256: %s\n      bin: kubectl-mash2\n' \
			$$os $$arch $(KREW_VERSION) $$archive $$(sha256sum $(OUT)/krew/$$archive | cut -d' ' -f1) >> $(OUT)/krew/mash2.yaml; \
	done
	@cat $(OUT)/krew/mash2.yaml
	@$(MAKE) --no-print-directory krew-check

.PHONY: krew-check
krew-check: ## what krew would do with out/krew: the manifest, each archive, and the plugin for this machine
	go run ./container/krew $(OUT)/krew

CONTAINER ?= docker buildx
IMAGE ?= ghcr.io/mash2-io/mash2
.PHONY: image
image: ## both images, for amd64 and arm64; needs docker buildx
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(CONTAINER) build -f container/Containerfile --platform linux/amd64,linux/arm64 \
		--build-arg VERSION=$(VERSION) --sbom=true --provenance=true --tag $(IMAGE):$(VERSION) \
		--output type=oci,dest=$(OUT)/image.tar,rewrite-timestamp=true .
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(CONTAINER) build -f container/Containerfile --target lpsolve \
		--build-arg VERSION=$(VERSION) --sbom=true --provenance=true --tag $(IMAGE):$(VERSION)-lpsolve \
		--output type=oci,dest=$(OUT)/image-lpsolve.tar,rewrite-timestamp=true .

.PHONY: localkube
localkube: deps ## the control plane in one program (cold: six to twelve minutes)
	@[ -e $(TOOLS)/localkube ] || echo "building the control plane (the first time four to ten minutes, then nothing)"
	@go run -tags '$(TAGS)' ./experiments/cluster/build

# Further flags of mash2 demo: make demo DEMO='--scenario flash-sale'.
DEMO ?=
.PHONY: demo
demo: build localkube ## Heartbeat at ten times real time, then the policy switch (five minutes once built)
	bin/mash2 demo --scenario heartbeat --speed 10 --report $(OUT)/demo $(DEMO)

.PHONY: demo-quick
demo-quick: build localkube ## the same at twenty times real time without the warm passes (two minutes once built)
	bin/mash2 demo --scenario heartbeat --speed 20 --warm-passes 0 --report $(OUT)/demo $(DEMO)

.PHONY: tutorial
tutorial: build localkube ## the cluster of docs/tutorial/first-steps.md: a stock HPA scales, mash2 waits for you; until Ctrl-C
	bin/mash2 demo --tutorial --report $(OUT)/tutorial

# Long packages say where they are: every test that took a second is a line.
# What tests of the page look through.
.PHONY: browser
browser:
	@command -v chromium >/dev/null || $(call apt, chromium)

TEST_FORMAT := --format testname
PROGRESS := sed -uE -e '/^PASS ([^ ]*\.)?(Test|Fuzz|Example)[^./]*\//d' -e '/^PASS ([^ ]*\.)?(Test|Fuzz|Example).* \(0\.[0-9]+s\)$$/d'
# Packages whose tests start a control plane, a Prometheus or helm mostly wait for them, and
# what they wait for has a time limit. The others compute: beside the first, at a lower
# priority, which takes little more than half the time of one after the other.
PLANE := ^github.com/mash2-io/mash2/(adoption|cmd/|execution/|experiments/(baseline|cluster|demo|envelope|gkesim|node|testbed)|sensing|serve|strategic)
# Without packages gotestsum would test the root alone and pass: a list that fails, or is
# empty, fails.
PACKAGES = packages=$$(go list -tags '$(TAGS)' ./... | grep $(1) '$(PLANE)')
# Tests of ./cmd/mash2 that are run after the packages that compute, which are done long before the others.
LATE := ^(TestSpotOnCluster|TestDocsOnACluster)$$
# One that fails does not keep the others from being run.
.PHONY: test test-plane test-rest test-packages test-late test-image test-localkube test-without-c
test: deps browser localkube helm $(TOOLS)/gotestsum ## every test, the ones on the real control plane included
	@mkdir -p $(OUT)
	@$(MAKE) --no-print-directory -k -j2 test-plane test-rest

test-plane:
	@$(call PACKAGES,-E) && $(TOOLS)/gotestsum $(TEST_FORMAT) --jsonfile $(OUT)/test-plane.json -- \
		-tags '$(TAGS)' -timeout 70m -p 1 -skip '$(LATE)' $$packages | $(PROGRESS)
test-rest:
	@$(MAKE) --no-print-directory -k -j1 test-packages test-late test-image test-localkube test-without-c
test-packages:
	@$(call PACKAGES,-vE) && nice $(TOOLS)/gotestsum $(TEST_FORMAT) --jsonfile $(OUT)/test.json -- \
		-tags '$(TAGS)' -timeout 70m -p 1 $$packages | $(PROGRESS)
test-late:
	$(TOOLS)/gotestsum $(TEST_FORMAT) --jsonfile $(OUT)/test-late.json -- \
		-tags '$(TAGS)' -timeout 20m -run '$(LATE)' ./cmd/mash2 | $(PROGRESS)
test-image:
	cd container/image && $(TOOLS)/gotestsum $(TEST_FORMAT) --jsonfile $(CURDIR)/$(OUT)/test-image.json -- ./... | $(PROGRESS)
test-localkube:
	cd experiments/localkube && $(TOOLS)/gotestsum $(TEST_FORMAT) \
		--jsonfile $(CURDIR)/$(OUT)/test-localkube.json -- -timeout 20m ./... | $(PROGRESS)
test-without-c:
	CGO_ENABLED=0 $(TOOLS)/gotestsum $(TEST_FORMAT) --jsonfile $(OUT)/test-without-c.json -- \
		-run WithoutLPSolve ./planning/node | $(PROGRESS)

# The pure rooms and those where things run at the same time. What explores states
# does so in one goroutine, for a quarter of an hour under the detector.
RACE := . ./adoption/... ./execution/... ./experiments/scale ./operator/... ./parallel ./record/... ./sensing/... ./serve/... ./strategic/...
.PHONY: test-race
test-race: deps $(TOOLS)/gotestsum ## the race detector on the rooms where things run at the same time (a few minutes)
	@mkdir -p $(OUT)
	$(TOOLS)/gotestsum $(TEST_FORMAT) --jsonfile $(OUT)/test-race.json -- \
		-race -short -tags '$(TAGS)' -timeout 20m -skip 'TestExplore|TestEveryGuardIsNeeded' $(RACE) | $(PROGRESS)

# The version that an upgrade is tested from: the last one whose take-overs are noted on the target.
OLD ?= e9f5c2e
.PHONY: test-upgrade
test-upgrade: deps localkube ## version OLD and this one take turns in the midst of a move (three minutes)
	rm -rf $(OUT)/old && mkdir -p $(OUT)/old && git archive $(OLD) | tar x -C $(OUT)/old
	cd $(OUT)/old && go test -c -tags '$(TAGS)' -buildvcs=false -o ../old.test ./cmd/mash2
	MASH2_TEST_OLD_PROGRAM=$(CURDIR)/$(OUT)/old.test MASH2_TEST_OLD_CHART=$(CURDIR)/$(OUT)/old/charts/mash2 \
		go test -tags '$(TAGS)' ./cmd/mash2 -run TestUpgradeAndBack -v -count 1

.PHONY: generate
generate: reference ## deepcopy, CRDs and their reference

.PHONY: reference
reference: ## deepcopy, CRDs, and the pages of docs/reference that are made from the program
	go generate ./api/v1alpha1
	go run ./experiments/crdreference
	go test -tags '$(TAGS)' -count 1 -run 'TestReference|TestSchemaOfPolicies|TestArchitecture' . ./serve ./serve/rest ./strategic/configmap ./cmd/mash2 -update

.PHONY: tidy
tidy:
	go mod tidy
	cd container/image && go mod tidy
	cd experiments/localkube && go mod tidy
	cd experiments/karpenter && go mod tidy

.PHONY: lint
lint: deps $(TOOLS)/golangci-lint
	$(TOOLS)/golangci-lint run ./...
	CGO_ENABLED=0 go vet ./cmd/... .

.PHONY: verify
verify: generate tidy lint ## generated code, go.mod and style are as committed
	@git diff --exit-code --stat && test -z "$$(git status --porcelain)" || \
		{ git status --short; echo "the tree is not clean after generate, tidy and lint: commit what they changed" >&2; exit 1; }

.PHONY: helm
helm: $(TOOLS)/helm

$(TOOLS)/helm:
	@echo "building helm (cold: two to four minutes)"
	GOBIN=$(TOOLS) go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)

.PHONY: k6
k6: $(TOOLS)/k6 ## k6, which the scripts in experiments/k6 are for

$(TOOLS)/k6:
	@echo "building k6 (cold: three to four minutes)"
	GOBIN=$(TOOLS) go install go.k6.io/k6@$(K6_VERSION)

$(TOOLS)/gotestsum:
	GOBIN=$(TOOLS) go install gotest.tools/gotestsum@$(GOTESTSUM_VERSION)

$(TOOLS)/golangci-lint:
	@echo "building golangci-lint (cold: several minutes)"
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: clean
clean: ## what the build left here
	rm -rf bin $(OUT) .cache

.PHONY: bench-envelope
WORKLOADS ?= 1000
NODES ?= 1000
PODS ?= 10000
bench-envelope: build localkube ## cycle time by step, CPU and memory of the operator at WORKLOADS, NODES, PODS (half an hour)
	go run -tags '$(TAGS)' ./experiments/envelope --workloads $(WORKLOADS) --nodes $(NODES) --pods $(PODS) $(ENVELOPE)

# ASK_HOSTS=1 follows the links to other hosts too.
.PHONY: docs-check docs-check-cluster
docs-check: deps ## every link, every command by its flags, every example that needs no cluster by running it, every generated page, the README's length (half a minute once it is built)
	go test -tags '$(TAGS)' -count 1 -run 'OfDocs|TestGuidesNameNoTests|TestReadmeIsShort|TestReference|TestSchemaOfPolicies|TestArchitecture|AreDocumented|AreShown' \
		. ./cmd/mash2 ./execution ./experiments/crdreference ./sensing ./serve ./serve/rest ./strategic/configmap
	$(if $(ASK_HOSTS),go test -tags '$(TAGS)' -count 1 -run TestLinksOfDocs ./cmd/mash2 -ask-hosts)

docs-check-cluster: deps localkube helm ## every command for a cluster that a page shows, on the tutorial's (five minutes)
	go test -tags '$(TAGS)' -count 1 -run TestDocsOnACluster -v ./cmd/mash2

.PHONY: explore
explore: deps ## every state of a policy switch of three pods and three nodes, whatever fails; 1,000 fault schedules, and 1,000 with watches that fail (three quarters of an hour)
	go test -tags '$(TAGS)' ./execution -run 'TestExplore|TestEveryGuardIsNeeded' -explore-all -v -count 1 -timeout 3h
	go test -tags '$(TAGS)' ./experiments/sim -run 'TestSwitchUnderFaults|TestWatchesThatFail' -fault-schedules 1000 -v -count 1 -timeout 1h

.PHONY: soak
# Nodes that the load rises to, twice.
UP ?= 5000
soak: deps ## three days of virtual time in ten worlds that fail all the time, and a load that takes UP nodes, none, and as many again (half an hour)
	go test -tags '$(TAGS)' ./experiments/sim -run 'TestSoak' -soak 72h -soak-seeds 10 -v -count 1 -timeout 1h
	go test -tags '$(TAGS)' ./experiments/sim -run 'TestUpDownUp' -up $(UP) -v -count 1 -timeout 2h

.PHONY: bench-rl
bench-rl: ## every learner on the standard tasks with five seeds, beside published figures; curves in out/bench-rl (twenty minutes of one core)
	go run ./experiments/training/bench --seeds 5 --out $(OUT)/bench-rl

# The model that comes with the program, chosen of three seeds by make bench-agents.
.PHONY: train-agents bench-agents
train-agents: build ## the small model of mash2 agents that comes with the program (two minutes)
	bin/mash2 train --environment marlise --algorithm residual-td3 --steps 60000 --seed $(AGENTS_SEED) --out $(OUT)/agents/shipped --restart
	cp $(OUT)/agents/shipped/model.rl $(OUT)/agents/shipped/card.json planning/vertical/shipped/

# Steps of each algorithm that is about two minutes of a core; each by three seeds.
AGENTS_SEED ?= 11
AGENTS ?= mdqn:200000 dppo:400000 ddpg:60000 ppo:400000 residual-ppo:400000 residual-td3:60000
bench-agents: build ## agents that move CPU between pods, each algorithm by three seeds, beside rules: response times by priority (half an hour)
	@for seed in 11 12 13; do for a in $(AGENTS); do \
		bin/mash2 train --environment marlise --algorithm $${a%:*} --steps $${a#*:} --seed $$seed --out $(OUT)/agents/$${a%:*}-$$seed || exit 1; \
	done; done
	bin/mash2 evaluate --environment marlise --episodes 2000 --seed 7 $(foreach r,fixed threshold threshold:60:20:100 threshold:60:30:100 proportional spread,--model rule:$(r)) \
		$(foreach s,11 12 13,$(foreach a,$(AGENTS),--model $(OUT)/agents/$(firstword $(subst :, ,$(a)))-$(s)))

.PHONY: bench-fleet
FLEET = hpa,karpenter,hpa-vpa,karpenter-vpa,keda-vpa,attune,autopilot,mash2-any,mash2-sized,oracle
bench-fleet: build ## fifty workloads with guessed requests, with requests that fit, with memory that varies and on machines that differ in memory, by every scaler; needs the traces (two hours)
	for s in fleet fleet-right fleet-memory; do bin/mash2 simulate --scenario $$s --scaler $(FLEET) || exit 1; done
	for s in fleet-types fleet-types-right; do bin/mash2 simulate --scenario $$s --scaler karpenter,mash2-any,mash2-mixed,mash2-sized,mash2-joint || exit 1; done

.PHONY: train-margins bench-margins
DEVELOPMENT = $(wildcard experiments/traces/development/*.yaml)
train-margins: build ## the model of margins that comes with the program, from drawn loads and the development traces (a quarter of an hour)
	bin/mash2 train --environment margins --steps 57600000 --seed 11 --out $(OUT)/margins/shipped $(foreach f,$(DEVELOPMENT),--input $(f))
	cp $(OUT)/margins/shipped/model.rl $(OUT)/margins/shipped/card.json planning/learned/shipped/

bench-margins: build ## that model on loads that it never saw, beside the planner: drawn ones, recorded ones, and the held-out days and fleets in the simulator (three hours)
	bin/mash2 evaluate --environment margins --episodes 200 --seed 5 --model builtin:margins --model rule:part:0.9
	bin/mash2 evaluate --environment margins --episodes 6 --seed 5 --model builtin:margins --model rule:part:0.9 \
		$(foreach f,$(filter-out %/autothrottle-diurnal.yaml %/autothrottle-noisy.yaml,$(wildcard experiments/traces/held-out/*.yaml)),--input $(f))
	go run -tags '$(TAGS)' ./experiments/verdict --learned --sizes 1 --set held-out --seeds 10
	go run -tags '$(TAGS)' ./experiments/verdict --learned --sizes 20 --set held-out --seeds 4
	go run -tags '$(TAGS)' ./experiments/verdict --learned --sizes 200 --set held-out --seeds 1
	go run -tags '$(TAGS)' ./experiments/verdict --learned --fleet-sizes 1 --set fleets --seeds 1
	go run -tags '$(TAGS)' ./experiments/verdict --learned --fleet-sizes 20,200 --set fleets --traces fleet-20-cold --seeds 1

# DRPC's students that come with the program, the predictor that they see, and the table of CoScal.
.PHONY: train-drpc bench-drpc
train-drpc: build ## the predictor and the students of the chain that come with the program, and CoScal's table (ten minutes)
	bin/mash2 train --environment train-ticket --algorithm gru --steps 14460 --seed 11 --out $(OUT)/drpc/predictor
	cp $(OUT)/drpc/predictor/predictor.json experiments/trainticket/shipped/
	$(MAKE) build
	bin/mash2 train --environment train-ticket --steps 100000 --seed 11 --out $(OUT)/drpc/residual
	bin/mash2 train --environment train-ticket --algorithm coscal --steps 100000 --seed 11 --out $(OUT)/drpc/coscal
	cp $(OUT)/drpc/residual/model.zip $(OUT)/drpc/residual/card.json $(OUT)/drpc/coscal/coscal.json experiments/trainticket/shipped/

DRPC_RULES = hpa hpa:60 proportional proportional:60 firm coscal plan agents agents:1:200 agents:1:100 joint joint:50:400 predictive predictive:50:400
bench-drpc: build ## the chain of forty services: the critical-path rule's settings, DRPC from nothing, learning on, and all beside one another (40 minutes)
	bin/mash2 evaluate --environment train-ticket --episodes 10 --seed 500 \
		$(foreach n,25 50 80,$(foreach t,40 50 60,$(foreach s,20 30 40,--model rule:firm:$(n):$(t):$(s))))
	bin/mash2 train --environment train-ticket --algorithm drpc --steps 100000 --seed 11 --out $(OUT)/drpc/scratch
	bin/mash2 train --environment train-ticket-changed --from builtin:drpc --steps 24100 --seed 12 --out $(OUT)/drpc/retrained
	bin/mash2 train --environment train-ticket-changed --algorithm drpc --from $(OUT)/drpc/scratch --steps 24100 --seed 12 --out $(OUT)/drpc/retaught
	for e in train-ticket train-ticket-changed; do bin/mash2 evaluate --environment $$e --episodes 40 --seed 3000 --model builtin:drpc \
		--model $(OUT)/drpc/scratch --model $(OUT)/drpc/retrained --model $(OUT)/drpc/retaught $(foreach r,$(DRPC_RULES),--model rule:$(r)) || exit 1; done
	bin/mash2 evaluate --environment train-ticket-nodes --episodes 20 --seed 3000 --model builtin:drpc $(foreach r,$(DRPC_RULES) hpa:50:3 hpa:60:3 hpa:75:3,--model rule:$(r))
	bin/mash2 evaluate --environment train-ticket --episodes 40 --seed 3000 --model builtin:drpc $(foreach r,$(DRPC_RULES),--model rule:$(r)) \
		--input $(or $(MASH2_DATA),../shared/data)/datacenter-traces/alibaba2018_machine_usage_8d_30s.csv.gz

.PHONY: bench-scale
# Further ones: SCALE='--nodes 5000', and for as many nodes as a cluster of GKE can have
# SCALE='--nodes 65000 --pods-per-node 10 --workloads 5000 --steps plan,falling,sequence,shrink --runs 3' (five minutes).
SCALE ?=
bench-scale: deps ## the pure steps of a cycle at 100, 300 and 1,000 nodes, in process: JSON lines; fails beyond the calibrated ranges (three minutes)
	go run -tags '$(TAGS)' ./experiments/scale $(SCALE)

.PHONY: mutate
# Names of targets, separated by commas; empty is all. Of those below no change may
# survive; of monitored, utility, division, preflight, newest, packing, oracle and hpa
# it tells which do.
MUTATE ?= trust,guard,sequence,watches,plausibility
mutate: deps ## do tests notice small changes of the program: fails on one that none notices, where every one has to be (half an hour)
	nice go run -tags '$(TAGS)' ./experiments/mutate --targets '$(MUTATE)'

.PHONY: bench-failover
bench-failover: build localkube ## a leader is killed at WORKLOADS with a week of history: until the next one plans, and knows it all
	go run -tags '$(TAGS)' ./experiments/envelope --workloads $(WORKLOADS) --nodes 300 --pods 3000 --history 168h --cycles 0 --failover

.PHONY: bench-pack
# Sizes as shapes/pods/types; the folder with the published instances.
PACK_SIZES ?= 5/12/1,5/12/5,10/100/1,30/1000/1,30/1000/5,30/1000/20,100/10000/1,100/10000/5,100/10000/20,500/100000/1,500/100000/5,500/100000/20
VECTORPACK ?= $(or $(MASH2_DATA),../shared/data)/vectorpack
bench-pack: deps $(if $(KARPENTER),karpenter) ## the packing solvers and their peers: CPU time and gap to the proven bound; published instances (a quarter of an hour)
	go run -tags '$(TAGS)' ./experiments/packing --sizes '$(PACK_SIZES)' --karpenter '$(KARPENTER)' --vectorpack '$(VECTORPACK)'
	go run -tags '$(TAGS)' ./experiments/packing --sizes '' --vectorpack '$(VECTORPACK)' --above 100 --items 1000 --every 15 --each 10

.PHONY: validate-hpa
validate-hpa: localkube ## our HPA against the stock controller, an hour of each load (twelve minutes)
	go test -tags '$(TAGS)' ./experiments/baseline -run AgreesWithTheStockController -v -count 1 -timeout 30m -stock-for 1h

.PHONY: bench-sim
bench-sim: deps ## speed of the simulation per CPU time, a week of twenty workloads included (eight minutes)
	@mkdir -p $(OUT)/simulator
	go test -tags '$(TAGS)' ./experiments/sim -run '^$$' -bench Speed -benchtime 1x -timeout 60m | tee $(OUT)/simulator/speed.txt

.PHONY: validate-sim
REAL := experiments/comparison/testdata/heartbeat-real-1.json,experiments/comparison/testdata/heartbeat-real-2.json
validate-sim: build ## both fidelities against each other and a real plane; writes docs/benchmarks/simulator.md with the speeds of bench-sim (two minutes)
	@mkdir -p $(OUT)/simulator
	@test -e $(OUT)/simulator/speed.txt || $(MAKE) bench-sim
	@rm -f $(OUT)/simulator/*.json
	for s in heartbeat sawtooth train-ticket; do \
		bin/mash2 simulate --scenario $$s --fidelity request,fluid --scaler mash2,hpa,static --seeds 5 --report $(OUT)/simulator/$$s -o json > $(OUT)/simulator/$$s.json || exit 1; \
	done
	for f in fluid request; do \
		bin/mash2 simulate --scenario heartbeat --fidelity $$f --against $(REAL) --seeds 8 -o json > $(OUT)/simulator/real-$$f.json || exit 1; \
	done
	go run ./experiments/comparison --simulator --out docs/benchmarks $(OUT)/simulator/*.json $(OUT)/simulator/speed.txt

.PHONY: k6-scripts
k6-scripts: ## the scenarios as scripts of k6
	go run ./experiments/k6

# A tenth of the time and of the users: 78 s.
.PHONY: k6-run
K6_RUN ?= -e TIME_SCALE=0.1 -e VU_SCALE=0.1 experiments/k6/heartbeat.js
k6-run: $(TOOLS)/k6 ## real k6 with heartbeat, small, against a server on loopback that spends the CPU
	@mkdir -p $(OUT)/results
	go build -o $(OUT)/k6-target ./experiments/k6/target
	@$(OUT)/k6-target --listen 127.0.0.1:18080 & target=$$!; trap "kill $$target" EXIT; sleep 1; \
	$(TOOLS)/k6 run -e TARGET=http://127.0.0.1:18080 $(K6_RUN) | tee $(OUT)/results/k6.txt

# Not part of make test: it changes the machine while it runs, and needs root.
.PHONY: deps-node
deps-node:
	@missing=; \
	for p in containerd runc; do command -v $$p >/dev/null || missing="$$missing $$p"; done; \
	[ -x /usr/lib/cni/bridge ] || missing="$$missing containernetworking-plugins"; \
	command -v ip >/dev/null || missing="$$missing iproute2"; \
	[ -z "$$missing" ] || $(call apt,$$missing); \
	[ -z "$$(echo $$missing | grep containerd)" ] || ! command -v systemctl >/dev/null || $(SUDO) systemctl disable --now containerd >/dev/null 2>&1 || true

# The programs of the experiments on a real node.
.PHONY: node-programs
node-programs:
	@mkdir -p $(OUT)/node
	CGO_ENABLED=0 go build -o $(OUT)/node/pause ./experiments/node/pause
	CGO_ENABLED=0 go build -o $(OUT)/node/target ./experiments/k6/target
	go build -o $(OUT)/node/node ./experiments/node

NODE = $(SUDO) env PATH="$$PATH:/usr/sbin:/sbin" $(OUT)/node/node

.PHONY: e2e-node
E2E_NODE ?=
e2e-node: build localkube deps-node node-programs $(TOOLS)/k6 $(TOOLS)/metrics-server ## real pods on this machine under real k6, the stock HPA and mash2, and e2e-sizes; root; writes docs/benchmarks/node.md (an hour)
	$(NODE) -page docs/benchmarks/node.md $(E2E_NODE)
	$(if $(E2E_NODE),,$(MAKE) e2e-sizes)

.PHONY: e2e-sizes
e2e-sizes: build localkube helm deps-node node-programs $(TOOLS)/k6 $(TOOLS)/metrics-server ## running pods that mash2 sizes in place on a real node under real k6, while it is killed; root; writes docs/benchmarks/node-sizes.md (25 minutes once built)
	$(NODE) -sizes -page docs/benchmarks/node-sizes.md

# Further flags: E2E_AGENTS='-seeds 8 -agents-model D'.
.PHONY: e2e-agents
E2E_AGENTS ?=
e2e-agents: build localkube deps-node node-programs vpa $(TOOLS)/k6 $(TOOLS)/metrics-server ## CPU moved between running pods on a real node under real k6, by each rule, VPA and none; root (a quarter of an hour once built)
	$(NODE) -agents -vpa $(E2E_AGENTS)

.PHONY: e2e-growth
e2e-growth: build localkube deps-node node-programs $(TOOLS)/k6 $(TOOLS)/metrics-server ## mash2 whose pods grow in place on a real node under real k6, beside mash2 alone; root (a quarter of an hour once built)
	$(NODE) -grow -start-up 25s -passes 1 $(E2E_NODE)

.PHONY: e2e-memory
e2e-memory: build localkube deps-node node-programs ## memory limits of running pods that follow what they use on a real node, and a pod that is killed without; root (five minutes once built)
	$(NODE) -memory $(E2E_NODE)

.PHONY: e2e-prediction
e2e-prediction: localkube deps-node node-programs helm ## models that predict on a real node beside real pods, by the chart's DaemonSet, and a strategy that reads the answer; root (three minutes once built)
	CGO_ENABLED=0 go build -o $(OUT)/node/mash2 ./cmd/mash2-operator
	$(NODE) -prediction $(E2E_NODE)

$(TOOLS)/metrics-server:
	@echo "building metrics-server (cold: three to four minutes)"
	GOBIN=$(TOOLS) go install sigs.k8s.io/metrics-server/cmd/metrics-server@$(METRICS_SERVER_VERSION)

.PHONY: e2e-edge-cloud
EDGE_CLOUD ?= -seeds 11,12,13,14 -days 5 -from 6 -hours 4 -speed 60
e2e-edge-cloud: build localkube helm ## a strategy moves one workload between an edge and a cloud pool on the real control plane, by a forest: JSON lines, beside the simulation (twenty-five minutes)
	go run -tags '$(TAGS)' ./experiments/continuum/real -program bin/mash2 $(EDGE_CLOUD)

.PHONY: whatif-error
whatif-error: build ## the simulation's known error that mash2 whatif tells, from recordings of a real control plane
	bin/mash2 simulate --scenario heartbeat --seeds 8 --against experiments/comparison/testdata/heartbeat-real-1.json,experiments/comparison/testdata/heartbeat-real-2.json -o json > experiments/whatif/error.json

.PHONY: calibrate
calibrate: ## fit the service model to measurements and write docs/benchmarks/calibration.md (ten seconds)
	go run ./experiments/calibration

# Scenario and number of seeds; week:1 adds five minutes.
SIMULATIONS ?= heartbeat:5 heartbeat-warm:5 flash-sale:5 flash-sale-late:5 sawtooth:5 sawtooth-warm:5 noise:5 \
	metrics-outage:5 stockout:5 regime-change:3 hotel:2 train-ticket:2 day:1
SWEEP ?= mash2,mash2:40,mash2:60,mash2:90,mash2-any,mash2-any:90,mash2-rl,clairvoyant,clairvoyant:90,hpa:30,hpa:40,hpa:50,hpa:60,hpa:70,hpa,hpa:90,$(RIVALS),static,oracle
RIVALS ?= hpa-overprovisioned,keda-rps,phpa,karpenter
.PHONY: experiments-sim
experiments-sim: build ## every scaler in every scenario, the HPA swept over targets; writes docs/benchmarks/simulation.md (eight minutes)
	@mkdir -p $(OUT)/sim
	bin/mash2 train --environment replicas --algorithm ppo --steps 200000 --seed 11 --out $(OUT)/sim/replicas
	@for s in $(SIMULATIONS); do \
		echo "$$s"; \
		bin/mash2 simulate --scenario $${s%:*} --seeds $${s#*:} --scaler $(SWEEP) --model $(OUT)/sim/replicas --report $(OUT)/sim/$${s%:*} -o json > $(OUT)/sim/$${s%:*}.json || exit 1; \
	done
	go run ./experiments/comparison --out docs/benchmarks $(foreach s,$(SIMULATIONS),$(OUT)/sim/$(firstword $(subst :, ,$(s))).json)

# Everybody on recorded load, a day each; those held out are never tuned on; and mash2
# under PERFORMANCE. TRACE_SEEDS='2 3 4 5 6 7 8 9 10' adds seeds of those that the marks are about,
# and intervals over them to the pages (an hour). In half an hour of load few things
# are decided, so that its cost differs much between seeds; it gets twelve.
TRACES ?= $(wildcard experiments/traces/*/*.yaml)
TRACE_SWEEP ?= mash2,mash2:60,mash2:90,mash2-any,mash2-any:90,clairvoyant,clairvoyant:90,hpa:30,hpa:40,hpa:50,hpa:60,hpa:70,hpa,hpa:90,$(RIVALS),static,oracle
TRACE_SEEDED ?= mash2,mash2-any,mash2-any:90,clairvoyant,hpa:30,hpa:40,hpa:50,hpa:60,hpa:70,hpa,hpa:90,karpenter,oracle
TRACE_SEEDS ?=
SHORT_TRACE_SEEDS ?= $(if $(TRACE_SEEDS),$(filter-out $(TRACE_SEEDS),2 3 4 5 6 7 8 9 10 11 12))
.PHONY: experiments-traces
experiments-traces: build ## every scaler on recorded load, held-out traces apart; writes docs/benchmarks/evaluation.md (a quarter of an hour)
	@rm -rf $(OUT)/traces
	@for t in $(TRACES); do \
		echo "$$t"; to=$(OUT)/traces/$$(basename $$(dirname $$t)); mkdir -p $$to; to=$$to/$$(basename $$t .yaml); \
		bin/mash2 simulate --scenario $$t --scaler $(TRACE_SWEEP) -o json > $$to.json || exit 1; \
		for seed in $(TRACE_SEEDS) $$(grep -q 'length: 30m' $$t && echo $(SHORT_TRACE_SEEDS)); do \
			bin/mash2 simulate --scenario $$t --seed $$seed --scaler $(TRACE_SEEDED) -o json > $$to.seed$$seed.json || exit 1; \
		done; \
		{ cat $$t; echo; echo 'policy: {initial: PERFORMANCE}'; } > $$to.performance.yaml; \
		bin/mash2 simulate --scenario $$to.performance.yaml --scaler mash2 -o json > $$to.performance.json || exit 1; \
	done
	bin/mash2 version > $(OUT)/traces/version
	go run ./experiments/evaluation --traces experiments/traces --out docs/benchmarks/evaluation.md $(OUT)/traces

# Rivals are chosen on the development traces only, and frozen in a file. VERDICT has
# further flags: --sizes 1 --set development --traces crane-1,crane-4 --seeds 3.
CALIBRATED := experiments/verdict/calibrated.json
$(CALIBRATED):
	go run -tags '$(TAGS)' ./experiments/verdict --calibrate --sizes 1,20 --calibrated $@

.PHONY: calibrate-rivals
calibrate-rivals: deps ## choose the verdict's rivals anew, on the development traces
	rm -f $(CALIBRATED)
	$(MAKE) $(CALIBRATED)

.PHONY: verdict
verdict: deps $(CALIBRATED) ## mash2 beside calibrated rivals at three sizes and in fleets: tables, fronts, marks
	@mkdir -p $(OUT)/verdict
	go run -tags '$(TAGS)' ./experiments/verdict --calibrated $(CALIBRATED) --out $(OUT)/verdict $(VERDICT) | tee $(OUT)/verdict/verdict.md

.PHONY: ablation
ablation: deps ## what each term of the utility does, on the development traces at 20 times the load (half an hour)
	go run -tags '$(TAGS)' ./experiments/verdict --ablation --sizes 20 --set development $(VERDICT)

# A release's pages are of one program and one day. Verdict, forecasts, packing, learning and
# sizes are printed, and their tables go into the pages by hand.
.PHONY: benchmarks
benchmarks: calibrate bench-sim validate-sim experiments-sim ## everything that docs/benchmarks has, by this program, for a release (six hours of a quiet machine)
	$(MAKE) experiments-traces TRACE_SEEDS='2 3 4'
	$(MAKE) k6-run experiments verdict ablation bench-forecast bench-pack bench-rl bench-agents bench-margins bench-drpc bench-fleet
	$(MAKE) bench-scale SCALE='--nodes 100,300,1000,2500,5000 --runs 10'
	$(MAKE) e2e-node e2e-agents

.PHONY: keda
keda: ## KEDA's operator and metrics server, and their CRDs, into .cache/bin, for TestKEDA (half an hour)
	cd experiments/keda && GOWORK=off go build -ldflags '-s -w' -o $(TOOLS)/keda-operator github.com/kedacore/keda/v2/cmd/operator
	cd experiments/keda && GOWORK=off go build -ldflags '-s -w' -o $(TOOLS)/keda-adapter github.com/kedacore/keda/v2/cmd/adapter
	mkdir -p $(TOOLS)/keda-crds
	cp "$$(cd experiments/keda && GOWORK=off go list -m -f '{{.Dir}}' github.com/kedacore/keda/v2)"/config/crd/bases/*.yaml $(TOOLS)/keda-crds/
	chmod -R u+w $(TOOLS)/keda-crds

.PHONY: vpa
vpa: ## the VerticalPodAutoscaler's recommender, updater and CRD, into .cache/bin/vpa (three minutes)
	mkdir -p $(TOOLS)/vpa
	cd experiments/vpa && GOWORK=off go build -ldflags '-s -w' -o $(TOOLS)/vpa/recommender k8s.io/autoscaler/vertical-pod-autoscaler/pkg/recommender
	cd experiments/vpa && GOWORK=off go build -ldflags '-s -w' -o $(TOOLS)/vpa/updater k8s.io/autoscaler/vertical-pod-autoscaler/pkg/updater
	cp "$$(cd experiments/vpa && GOWORK=off go list -m -f '{{.Dir}}' k8s.io/autoscaler/vertical-pod-autoscaler)"/deploy/vpa-v1-crd-gen.yaml $(TOOLS)/vpa/crd.yaml
	chmod u+w $(TOOLS)/vpa/crd.yaml

.PHONY: karpenter
karpenter: ## Karpenter with its provider of simulated nodes, into .cache/bin (five minutes)
	@mkdir -p $(TOOLS)
	cd experiments/karpenter && GOWORK=off go build -ldflags '-s -w' -o $(TOOLS)/karpenter .

# Scenario and number of passes after the first.
SPEED ?= 1
EXPERIMENTS ?= heartbeat:2 flash-sale:0
.PHONY: experiments
experiments: build localkube $(if $(KARPENTER),karpenter) ## the paper's scenarios on the real control plane at SPEED × real time, simulated beside it; writes docs/benchmarks/results.md (an hour)
	@for e in $(EXPERIMENTS); do \
		s=$${e%:*}; to=$(OUT)/experiments/$$s; rm -rf $$to; mkdir -p $$to; bin/mash2 version > $$to/version; \
		bin/mash2 demo --scenario $$s --speed $(SPEED) --warm-passes $${e#*:} --switch=false --karpenter "$(KARPENTER)" --report $$to -o json > $$to.json || exit 1; \
		bin/mash2 simulate --scenario $$s --scaler mash2,hpa,karpenter --seeds 8 --against $$to/results.json --report $$to/simulated -o json > $$to-simulated.json || exit 1; \
	done
	$(MAKE) results

.PHONY: results
results: build ## judges the marks and writes docs/benchmarks/results.md from what the experiments left in out (two minutes)
	@mkdir -p $(OUT)/results
	bin/mash2 simulate --scenario sawtooth --warm-passes 2 --seeds 5 --scaler mash2,mash2-any,clairvoyant,hpa -o json > $(OUT)/results/sawtooth.json
	go test -tags '$(TAGS)' -json -count 1 ./planning -run 'TestConstantDemandConverges|TestNoiseWithinTheToleranceChangesNothing|TestAtMostOneChangeOfDirectionAfterASwitch' > $(OUT)/results/convergence.json || [ $$? = 1 ]
	go run ./experiments/evaluation --results --out docs/benchmarks/results.md --traces experiments/traces --sim $(OUT)/sim --real $(OUT)/experiments \
		--sawtooth $(OUT)/results/sawtooth.json --convergence $(OUT)/results/convergence.json --k6 $(OUT)/results/k6.txt \
		--version "$$(cat $(OUT)/traces/version)" $(OUT)/traces

.PHONY: train-gru
train-gru: ## the small network of mash2 forecast, on the development part of the traces (half a minute)
	go run ./experiments/gru

.PHONY: bench-forecast
bench-forecast: build ## every forecast model on M4 hourly and on traces, what each costs, and what it buys in scenarios (five minutes of two cores)
	@mkdir -p $(OUT)
	go run ./experiments/forecasting --mash2 bin/mash2 --figures $(OUT)/bench-forecast | tee $(OUT)/bench-forecast.md
