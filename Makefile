# Shardway. `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Tools are pinned here and not in go.mod: users who build Shardway need none.
GOLANGCI_LINT_VERSION := v2.15.0
BIN := $(CURDIR)/.bin
GOLANGCI_LINT := $(BIN)/golangci-lint-$(GOLANGCI_LINT_VERSION)
GOTESTSUM_VERSION := v1.13.0
GOTESTSUM := $(BIN)/gotestsum-$(GOTESTSUM_VERSION)
VALE_VERSION := v3.21.0
VALE := $(BIN)/vale-$(VALE_VERSION)
GOVULNCHECK_VERSION := v1.9.0
# An app of e2e/recipes.
POCKETBASE_VERSION := v0.36.8
POCKETBASE := $(BIN)/pocketbase-$(POCKETBASE_VERSION)
# VULNDB is the address of a vulnerability database; without one nothing is asked.
VULNDB ?=

BINARY := shardway
FUZZTIME ?= 60s
TRIALS ?= 20

# Whole clusters are tested apart, with the real binary, and without the race detector,
# which what is measured in ack/scale would not bear either.
UNIT = $$(go list ./... | grep -vE '^shardway/(e2e|ack/scale)')

# What decides is pure, and what reads the tree has no state: nothing in them runs
# beside something else, so the race detector finds nothing there.
PURE := ./ack ./ack/agent ./ack/election ./ack/leader ./config ./deploy ./keysource ./keysource/jsonkey ./shardmap ./internal/docs ./internal/layering ./internal/licenses
# What has its own time runs with the race detector in make test, a share of it. What the race detector
# reduces runs whole without it in make test-rest.
VIRTUAL := ./node ./node/apphealth ./node/consensus ./node/control ./node/crashdetect ./node/findings ./node/gossip ./node/identity ./node/leaderloop ./node/membership ./node/muxpool ./node/persist ./node/writelimit
RACED = $$(printf '%s\n' $(UNIT) | grep -vxFf <(go list $(PURE)))

# stage runs a command under a name and prints its time: $(call stage,name,command).
define stage
	@echo "== $(1)"; start=$$SECONDS; status=0; ( $(2) ) || status=$$?; \
	echo "== $(1): $$((SECONDS - start)) s"; exit $$status
endef

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## build the binary
	@go build -o $(BINARY) .

.PHONY: run
run: build ## start three nodes with a sample app on this machine
	@./$(BINARY) demo

# DIST is where dist puts what it builds for PLATFORMS.
DIST ?= dist
PLATFORMS ?= linux/amd64 linux/arm64 darwin/arm64

# It builds everything twice, from nothing, so the other tests go without it.
.PHONY: dist-check
dist-check: ## test that the binaries of dist are the same from every tree
	$(call stage,binaries from two trees,go test -count=1 -timeout 30m -tags dist ./deploy -run '^TestBinaryIsTheSameFromEveryTree$$')

.PHONY: dist
dist: ## static binaries of this commit for PLATFORMS below dist, the same bytes from every tree, with checksums
	@deploy/dist '$(DIST)' $(PLATFORMS)

# ENGINE builds images: docker, podman or buildah.
ENGINE ?= docker
IMAGE ?= shardway

.PHONY: image
image: ## a container image of the linux binary for this machine's architecture (ENGINE=docker|podman|buildah, IMAGE=shardway)
	@arch=$$(go env GOARCH); deploy/dist '$(DIST)' "linux/$$arch" && \
	$(ENGINE) build -f deploy/docker/Dockerfile --build-arg FROM=prebuilt --build-arg "BINARY=$(DIST)/shardway-linux-$$arch" -t '$(IMAGE)' .

# Commas of arguments within a call.
comma := ,

# RAN keeps what each stage of the tests ran, for ran.
RAN := $(CURDIR)/.ran

# In CI the seeds of simulation, storms and chaos follow from the commit: another
# commit plays others, and the same commit the same again.
ifdef CI
export SHARDWAY_TEST_SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=6 HEAD))
endif

# What fails by the real clock while the machine is away is repeated, alone; what has
# its own time, or none, never is.
RERUN := $(BIN)/rerun
# RERUN_UNTIL is when the last one is repeated, in seconds since 1970; empty: whenever.
RERUN_UNTIL ?=
.PHONY: $(RERUN)
$(RERUN):
	@go build -o $@ ./e2e/kit/retest
empty :=
TIMELESS := ^($(subst $(empty) $(empty),|,$(strip $(PURE:./%=shardway/%) $(VIRTUAL:./%=shardway/%))))$$

# tested runs go test under a name: $(call tested,name,arguments of go test). What go vet
# says lint says too.
tested = $(call stage,$(1),mkdir -p $(RAN) && $(RERUN) -json '$(RAN)/$(1).json' -never '$(TIMELESS)' -until '$(RERUN_UNTIL)' -- $(GOTESTSUM) --format pkgname -- -count=1 -vet=off $(2))

# make test is what a contributor runs: everything but LONG and MUTANTS with the race detector, the PURE
# packages without it, and SHORT_CLUSTERS. make test-rest is all other tests. Every test
# belongs to one of them, or to both if the race detector changes what it shows
# (internal/docs checks that these names exist).
#
# MUTANTS are the tests that build and run planted mistakes. They run only without the race detector.
MUTANTS := ^(TestEachMutantFailsATest|TestEveryMutantIsCaught|TestEveryRuleOfTheNodeIsNeeded|TestEachBootstrapMutantIsDetected)$$

# LONG are the other tests of packages that take more than about ten seconds.
LONG := ^(TestManyWholeNodes|TestShardsLeaveAppThatDoesNotAcquire|TestShardLeavesAppThatDoesNotAcquireIt|TestNothingMovesWhileNoAppAcquires|TestNoLeaseLapsesAtRest|TestFailedReleaseIsReportedByEveryNode|TestFlappingAppMakesFewMaps|TestEveryLeaseCountsFromAnAnswerOfTheLastInterval|TestBrieflyAbsentNodeIsNotReported|TestSafeDrainLeavesUnreleasedShards|TestAppIsNotSilentWhileItsClientReadsSlowly|TestRunningRequestsEndBeforeTheirShardsAreTaken|TestForgedResetsCostWhatTheTakeoverAllows|TestNoNodeLagsBehindAMapThatIsNew|TestDeadVotersPlacesAreFilled|TestRestartInPlaceEndsOnceItIsWaitedFor|TestActionsDuringAnElectionReportToTryAgain|TestProgramOfAnotherModule|TestFollowersKnowOfEachOtherWithoutDelay|TestWebSocketBufferBytesAreLimited|TestPanicOfAHookIsItsErrorOnly|TestLongRaftTimeoutKeepsTheLeaderOfDistantNodes|TestSlowReadersKeepTwoBuffersEach|TestNewGatewayLeaderWaitsForHeartbeats|TestStatusAgreesWithItselfAtAColdStart|TestWebhookGetsEveryEvent|TestRestartsAreNoRollbacks|TestOnlyVoterWithASlowDiskServes|TestDrainOfLocalNodeReportsWhatBlocksIt|TestSelfCheckReportsNothingDuringOrdinaryChanges|TestLevelIsRaisedOnlyWhenAllKnowIt|TestReceiverIgnoresRepeatedEventsAboutNodes|TestSelfCheckReportsNothingAfterAPartition|TestOwnerIsKnownThoughItIsNoServer|TestStopEndsSafeDrain|TestNodeWithStalledDiskStops|TestDeadFounderIsWaitedFor|TestVouchedForIsWaitedForNoLonger|TestFollowerWithStalledDiskIsExcludedAndReturns|TestNewLeaderRemovesNodeThatHasEnded|TestOlderImageIsRefusedAlsoWhenTheNodeWasStopping|TestCrashReportsIncludeTheirAge|TestMetricsShowClusterState|TestHookOutlivesNoFailedNode|TestOnlyAFollowingVoterSendsTwoHeartbeatsPerInterval|TestAnnouncedServiceNeverBecomesANode)$$

# having are the packages with tests that match: $(call having,tests). To link the tests of all other
# packages for nothing takes a minute of a processor.
having = go list $$(grep -rlE --include='*_test.go' '^func ($(subst ^,,$(subst $$,,$(1))))\b' . | xargs -n 1 dirname | sort -u) | grep -vE '^shardway/(e2e|ack/scale)'

# REDUCED are the tests of ./node that run fewer rounds with the race detector, or none (internal/docs
# checks that the list is complete). All other tests of ./node run only with the race detector, because
# in virtual time they do the same without it.
REDUCED := ^(TestBrieflyAbsentNodeIsNotReported|TestClusterWithSlowDisksIsBorn|TestDeadFounderIsWaitedFor|TestDeadVotersPlacesAreFilled|TestEveryCrashIsOverInNoMoreThanItsTakeover|TestEveryLeaseCountsFromAnAnswerOfTheLastInterval|TestEveryRuleOfTheNodeIsNeeded|TestFailedReleaseIsReportedByEveryNode|TestFollowersKnowOfEachOtherWithoutDelay|TestForgedLeaveRemovesNoServer|TestForgedResetsCostWhatTheTakeoverAllows|TestFounderGivesWayToASmallerID|TestFounderKilledAtAnyMomentFoundsOneCluster|TestLeaderThatHangsIsReplacedBeforeLeasesEnd|TestLeaderWithStalledDiskIsReplaced|TestLossyNetworkStillServes|TestManualRotationExcludesAttacker|TestManyWholeNodes|TestNewcomerHasALeaseWhenItsShardsCome|TestNoLeaseIsMuchShorterThanOthers|TestNoLeaseLapsesAtRest|TestNodeThatLeftIsRemovedFromRaft|TestNothingMovesWhileNoAppAcquires|TestOneOwnerInAnyStorm|TestRollingRestartFailsNoRequest|TestRotationReplacesTheSecretEverywhere|TestSafeDrainLeavesUnreleasedShards|TestShardLeavesAppThatDoesNotAcquireIt|TestShardsLeaveAppThatDoesNotAcquire|TestSlowDisksCostNoLease|TestStrangersStayOut|TestTwentyJoinsInAStorm|TestTwoNodesJoiningTogetherGiveAnEvenMap|TestVotersWithSlowDisksStandOneAfterTheOther)$$

# SHORT_CLUSTERS are tests of whole clusters, one or two for each property that users rely on.
SHORT_CLUSTERS := ^(TestReadmeCommandsRun|TestRequestsOfOneKeyReachOneApp|TestKillFailsNoRequest|TestDashboardShowsKilledNode|TestDrainUnderLoadFailsNoRequest|TestSigtermUnderLoadFailsNoRequest|TestJoinAndLeaveMoveFewestShards|TestRollingRestartMovesEachShardTwice|TestPausedOwnerServesNoRequestWithoutLease|TestHealedPartitionReunites|TestOneWayLinkCountsAsUnresponsive|TestResumableWebSocketsStayOpen|TestLongPollsMoveWithTheirShard|TestBackupIsRestored|TestPortsOfClusterWithSecretRequireIt|TestMintedKeysAreServedOnEveryNode|TestEmbeddedHandlersCheckTheirLease|TestColdStartServesEveryShard|TestColdStartMovesNoShard|TestTwoNodesJoinAtOnce|TestSighupReloadsUnderLoad|TestStoreRejectsWritesOfPausedOwner|TestUnambiguousMalformedResponsesAreForwarded)$$

# BUSY are tests of whole clusters that need both processors for themselves.
BUSY := ^(TestRealClients|TestIdleConnectionsAreCheap|TestSlowHeadersDoNotDelayOtherClients)$$

.PHONY: test
test: $(GOTESTSUM) $(RERUN) ## what a contributor runs: units with the race detector, the simulation, whole clusters in a short form
	@rm -rf $(RAN)
	@[ -z "$${SHARDWAY_TEST_SEED:-}" ] || echo "== first seed of simulation, storms and chaos: $$SHARDWAY_TEST_SEED (SHARDWAY_TEST_SEED)"
	@status=0; for lanes in $(SHORT_LANES); do $(MAKE) --no-print-directory -k -j 3 $${lanes//+/ } || status=$$?; done; exit $$status

# SHORT_LANES are groups of stages, one after the other. The stages of a group, joined by +, run
# beside each other. In CI the tests of whole clusters have the machine alone: they run by the
# real clock, and the machine may have neighbours. Elsewhere they run beside the units, because
# clusters wait most of the time.
ifdef CI
SHORT_LANES := test-unit+test-pure test-short-clusters
SHORT_AT_ONCE := 4
else
SHORT_LANES := test-unit+test-pure+test-short-clusters
SHORT_AT_ONCE := 2
endif

# The longest packages come first, so that none is left alone at the end. Three run at the same time,
# because some wait more than they compute. At the end of each process the race detector sleeps for a
# second; a tenth is enough to report what it has found.
.PHONY: test-unit
test-unit: export GORACE := atexit_sleep_ms=100
test-unit: $(GOTESTSUM) $(RERUN)
	$(call tested,units with the race detector,-race -p 3 -short -skip '$(LONG)|$(MUTANTS)' -timeout 20m ./node ./proxy ./internal/cli ./embed ./node/gossip ./proxy/... $(RACED))

IDLE := $(shell command -v chrt >/dev/null && echo chrt --idle 0 || echo nice -n 19)

# What is pure does not care when it runs, so it takes what the other stages leave. A heap of
# some megabytes would be collected again and again: GOGC leaves room for more.
.PHONY: test-pure
test-pure: export GOGC := 400
test-pure: GOTESTSUM := $(IDLE) $(GOTESTSUM)
test-pure: | $(GOTESTSUM) $(RERUN)
	$(call tested,what is pure,-p 1 -short -skip '$(LONG)|$(MUTANTS)' -timeout 20m $(PURE))

.PHONY: test-short-clusters
test-short-clusters: | $(GOTESTSUM) $(RERUN)
	$(call tested,short clusters,-parallel $(SHORT_AT_ONCE) -timeout 10m -run '$(SHORT_CLUSTERS)' ./e2e)

.PHONY: test-all
test-all: ## every test: make test, then make test-rest
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-rest

# LANES are the groups of test-rest. In CI nothing runs beside chaos and most tests of whole clusters.
# Recipes and tools wait for processes more than they compute, and nodes in virtual time run only while
# a processor has nothing else to do.
ifdef CI
LANES := test-long+test-path test-clusters test-recipes+test-tools+test-long-virtual test-chaos
TOOLS_AT_ONCE := 1
CHAOS_AT_ONCE := 3
else
LANES := test-long+test-long-virtual+test-path+test-clusters test-recipes+test-chaos+test-tools
TOOLS_AT_ONCE := 2
CHAOS_AT_ONCE := 2
endif

.PHONY: test-rest
test-rest: $(GOTESTSUM) $(RERUN) ## what make test leaves out: planted mistakes, nodes in virtual time and the data path without the race detector, all tests of whole clusters, chaos, Kubernetes manifests, browsers
	@status=0; for lanes in $(LANES); do $(MAKE) --no-print-directory -k -j 4 $${lanes//+/ } || status=$$?; done; exit $$status
	@.ci/ran $(RAN)

.PHONY: test-long
test-long: export GORACE := atexit_sleep_ms=100
test-long: | $(GOTESTSUM) $(RERUN)
	$(call tested,long tests with the race detector,-race -run '$(LONG)' -timeout 20m $$($(call having,$(LONG)) | grep -vxFf <(go list $(PURE))))

.PHONY: test-long-virtual
test-long-virtual: export GOGC := 400
test-long-virtual: GOTESTSUM := $(IDLE) $(GOTESTSUM)
test-long-virtual: | $(GOTESTSUM) $(RERUN)
	$(call tested,whole nodes in virtual time,-timeout 20m -run '$(REDUCED)' ./node)
	$(call tested,parts of nodes in virtual time,-p 1 -timeout 20m $(filter-out ./node,$(VIRTUAL)))
	$(call tested,long tests of what is pure,-p 1 -run '$(LONG)|$(MUTANTS)' -timeout 20m $$($(call having,$(LONG)|$(MUTANTS)) | grep -xFf <(go list $(PURE))))
	$(call stage,manifests for Kubernetes,cd deploy/kubernetes/verify && $(GOTESTSUM) --format pkgname --jsonfile '$(RAN)/kubernetes.json' -- -count=1 -timeout 10m ./...)

# The race detector changes timing and sync.Pool: what users get runs without it. It also slows the
# processes that planted bugs of childproc and procguard start.
.PHONY: test-path
test-path: | $(GOTESTSUM) $(RERUN)
	$(call tested,data path,-timeout 10m ./proxy/... $$($(call having,$(MUTANTS)) | grep -vxFf <(go list $(PURE) $(VIRTUAL))))

# Three at a time use half of two processors, because clusters wait most of the time.
.PHONY: test-clusters
test-clusters: | $(GOTESTSUM) $(RERUN)
	$(call tested,whole clusters,-parallel 4 -timeout 20m -skip '$(BUSY)|$(SHORT_CLUSTERS)' ./e2e)

# The recipes run apps that others wrote.
.PHONY: test-recipes
test-recipes: | $(GOTESTSUM) $(RERUN) $(POCKETBASE)
	$(call tested,recipes,-parallel 3 -timeout 10m ./e2e/recipes)

.PHONY: test-chaos
test-chaos: | $(GOTESTSUM) $(RERUN)
	$(call tested,busy clusters,-timeout 20m -run '$(BUSY)' ./e2e)
	$(call tested,chaos,-parallel $(CHAOS_AT_ONCE) -timeout 20m ./e2e/chaos)

.PHONY: test-tools
test-tools: | $(GOTESTSUM) $(RERUN)
	$(call tested,what tests clusters,-p $(TOOLS_AT_ONCE) -timeout 20m ./e2e/bench ./ack/scale $$(go list ./e2e/... | grep -vE '^shardway/e2e(/chaos|/recipes)?$$'))

# In the usual run a third of these tests have a secret, and of chaos the cluster of
# five; the tests of secrets give their own.
.PHONY: e2e-secret
e2e-secret: build ## the tests of whole clusters, with a secret between the nodes
	$(call stage,whole clusters with a secret,SHARDWAY_E2E_SECRET=1 go test -count=1 -timeout 20m ./e2e)

.PHONY: e2e
e2e: ## only the tests of whole clusters, chaos too
	$(call stage,whole clusters and chaos,go test -count=1 -p 2 -timeout 40m ./e2e/...)

.PHONY: e2e-clients
e2e-clients: ## clients that others wrote, 10 000 idle connections and 1 000 slow ones against clusters
	$(call stage,real clients,go test -count=1 -v -run 'TestRealClients|TestIdleConnections|TestSlowHeaders' ./e2e | grep -v '"level":')

.PHONY: check
check: lint ## what a commit needs: formatting, vet, lint, module files, unit tests without the race detector
	@go mod verify >/dev/null
	$(call stage,unit tests,go test $(UNIT))

.PHONY: lint
lint: $(GOLANGCI_LINT) prose ## linters of Go code and of the documentation
	$(call stage,lint,$(GOLANGCI_LINT) run ./...)

.PHONY: prose
prose: $(VALE) ## check documentation and Go comments with the rules of .vale/styles
	$(call stage,prose,.ci/prose $(VALE))

.PHONY: prose-baseline
prose-baseline: $(VALE) ## write .vale/baseline after warnings were removed
	@.ci/prose $(VALE) --update

.PHONY: vuln
vuln: ## known vulnerabilities of what the binary is made of, VULNDB=address of their database
	@if [ -n "$(VULNDB)" ]; then \
		GOBIN=$(BIN) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION); \
		$(BIN)/govulncheck -db $(VULNDB) ./...; \
	else \
		echo "== vulnerabilities: not checked, VULNDB names no database"; \
	fi

.PHONY: bench
bench: ## benchmarks of the packages, then of whole clusters (TRIALS=20 of each fault)
	$(call stage,benchmarks of packages,go test -run '^$$' -bench . -benchmem $(UNIT))
	$(call stage,benchmarks of clusters,go test -run '^$$' -bench . -benchtime $(TRIALS)x -p 1 -timeout 120m ./e2e/...)

.PHONY: bench-proxy
bench-proxy: ## CPU time per request beside nginx and HAProxy (ARGS='-rounds 3 -only "one hop, 100 B"')
	@go run ./e2e/bench $(ARGS)

.PHONY: bench-idle
bench-idle: ## what nodes take that nobody asks anything (ARGS='-beside /path/to/older/shardway')
	@go run ./e2e/bench -idle 40s -rounds 2 $(ARGS)

# Debian's packages. bench-proxy and the tests with real clients name what is
# missing, and go on without it.
.PHONY: bench-tools
bench-tools: ## install nginx, HAProxy and the load generators (Debian, root)
	@apt-get install -q -y --no-install-recommends nginx-light haproxy wrk nghttp2-client

.PHONY: pictures
pictures: ## take the README's pictures of the dashboard anew (docs/status*.png; needs Chromium)
	@go test -count=1 ./e2e/dashboard -run '^TestScreenshotsAreTaken$$' -pictures '$(CURDIR)/docs'

# SCHEDULES is how many schedules sim runs, SEED where it begins.
SCHEDULES ?= 100000
SEED ?= 1

.PHONY: sim
sim: ## simulate the protocol (SCHEDULES=100000 from SEED=1) and print what was covered
	$(call stage,simulation,go test -count=1 -timeout 60m -v ./ack -run '^TestSimulation$$' -sim.schedules=$(SCHEDULES) -sim.first=$(SEED))

# SOAK is how long each of the two clusters of soak lives.
SOAK ?= 20m

# MOVES is how many moves of shards soak has counters follow afterwards.
MOVES ?= 1000

.PHONY: soak
soak: ## all faults again and again, on three and on five nodes side by side (SOAK=20m), state through planned moves (MOVES=1000), and kept sockets at full size, as bench-websockets does
	$(call stage,soak,go test -count=1 -timeout 24h -v ./e2e/chaos -run '^TestChaos$$' -chaos.for=$(SOAK))
	$(call stage,counters that follow their shards,SHARDWAY_E2E_MOVES=$(MOVES) go test -count=1 -timeout 24h -v ./e2e -run '^TestCountersFollowTheirShards$$')
	$(MAKE) bench-websockets

.PHONY: bench-faults
bench-faults: ## what each fault costs: the longest time a key went unanswered, requests that failed or were held (TRIALS=20 each); planned moves with hooks, and with a slow request at each app; bursts of connections
	$(call stage,faults,go test -count=1 -timeout 24h -v ./e2e/faults -run '^TestFaults$$' -faults.trials=$(TRIALS))
	$(call stage,planned moves,go test -count=1 -timeout 24h -v ./e2e/faults -run '^TestMoves$$' -faults.trials=$(TRIALS))
	$(call stage,planned moves with slow requests,go test -count=1 -timeout 24h -v ./e2e/faults -run '^TestSlowRequests$$' -faults.trials=$(TRIALS))
	$(call stage,bursts,go test -count=1 -timeout 24h -v ./e2e/faults -run '^TestBursts$$' -faults.bursts=1000$(comma)3000 -faults.trials=3)

# SOCKETS is how many WebSockets talk in bench-websockets, ROLLS how many rolling restarts they
# go through, IDLE_SOCKETS how many others move at once. A process needs two descriptors for each.
SOCKETS ?= 1000
ROLLS ?= 10
IDLE_SOCKETS ?= 8000

.PHONY: bench-websockets
bench-websockets: ## WebSockets that stay open: talking ones through rolling restarts, idle ones moved at once, with what each costs (SOCKETS=1000 ROLLS=10 IDLE_SOCKETS=8000)
	$(call stage,kept sockets,SHARDWAY_E2E_SOCKETS=$(SOCKETS) SHARDWAY_E2E_SOCKET_ROLLS=$(ROLLS) SHARDWAY_E2E_IDLE_SOCKETS=$(IDLE_SOCKETS) \
		go test -count=1 -parallel 1 -timeout 24h -v ./e2e -run '^(TestRollingRestartsKeepManyWebSockets|TestIdleWebSocketsMove)$$')

# STEADY is how long bench-steady loads the machine.
STEADY ?= 10m

.PHONY: bench-steady
bench-steady: ## load at 90 % CPU without any fault: false drops, share of time without a lease (STEADY=10m)
	$(call stage,steady load,go test -count=1 -timeout 24h -v ./e2e/faults -run '^TestSteady$$' -steady.for=$(STEADY))

.PHONY: fuzz
fuzz: ## every fuzz target in turn (FUZZTIME=60s each)
	@for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "== $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: tools
tools: $(GOLANGCI_LINT) $(GOTESTSUM) $(VALE) $(POCKETBASE) ## install the pinned tools below .bin

# The version is in the name, so a new pin installs anew. The module proxy may
# fail for a moment: three tries. $(call install,name,package@version)
define install
	@for try in 1 2 3; do \
		if GOBIN=$(BIN) go install $(2); then mv $(BIN)/$(1) $@; exit 0; fi; \
		echo "$(1) was not installed (try $$try of 3)" >&2; sleep 5; \
	done; exit 1
endef

$(GOLANGCI_LINT):
	$(call install,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION))

# Vale needs a C compiler, as the race detector does.
$(VALE):
	$(call install,vale,github.com/vale-cli/vale/v3/cmd/vale@$(VALE_VERSION))

# This is the main program of the releases. Its SQLite is compiled from Go, so it needs no C compiler.
$(POCKETBASE):
	$(call install,base,github.com/pocketbase/pocketbase/examples/base@$(POCKETBASE_VERSION))

$(GOTESTSUM):
	$(call install,gotestsum,gotest.tools/gotestsum@$(GOTESTSUM_VERSION))
