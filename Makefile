# `make test` is what every change must pass, `make check` what a release must pass, and
# `make nightly` runs for hours. `make help` lists the rest; CONTRIBUTING.md says what each catches.

STATICCHECK_VERSION := v0.8.2
STATICCHECK := $(CURDIR)/.bin/staticcheck-$(STATICCHECK_VERSION)
CROSS := linux/arm64 darwin/arm64 windows/amd64
FUZZTIME ?= 1m
# Minutes, and where the soak notes what it has done: it goes on from there, on another machine too.
SOAK ?= 480
SOAKED ?= .bin/soak
TALLY := $(CURDIR)/.bin/tally
# Folders whose mutants `make mutants` tries, and `make plant` puts into the code, separated by commas: all if it is empty.
MUTANTS ?=
comma := ,

# Packages whose goroutines meet: `make test` runs these with the race detector. They begin in this order:
# the longest come first, so that none is left to run alone at the end.
RACE := ./internal/server/... . ./internal/storage/... ./queue ./internal/ops/admin ./internal/shard/group ./internal/node ./shardmap \
	./saga/... ./cache ./counter ./copies ./key/fanout ./actor ./hotkey ./heat ./watch ./internal/ops/importer ./internal/ops/oplog ./internal/reshard/protocol

# Tests whose work is many bytes on a disk in memory. It takes the race detector and the checks that Pebble
# makes under it many times as long, and what their goroutines share, smaller tests share too: `make test`
# runs these without it, and `make check` with it.
BYTES := ^TestStore_(ReclaimsTablesByItselfAfterDeletes|FullDisk_OpensAndIsEmptiedAgain)$$

# Tests do without cmd/cleave/default.pgo: to compile everything once more takes minutes.
vet staticcheck rules cross short long mutants plant extract soak fuzz: export GOFLAGS += -pgo=off
# Compression in Go, which a release has. That in C takes a minute to compile; `make check` tests it.
vet rules short mutants: export GOFLAGS += -tags=pebblegozstd
# The linker takes half the time without what only debuggers read, and vet has been run.
TEST := go test -vet=off -ldflags=-w -timeout 40m

.PHONY: help test check nightly deps format vet staticcheck rules cross short long mutants plant extract soak fuzz bench bench-redis bench-scale bench-heat bench-advise profile screenshots build measure

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: deps format vet rules short ## what every change must pass, in minutes

check: deps format vet staticcheck rules cross long mutants ## what a release must pass

nightly: soak fuzz ## the long form of the tests with new seeds, kills and faults, then fuzzing

deps: ## install what the tests need, or say what is missing
	@scripts/deps

format: ## fail on files that gofmt would change
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt -w these:"; echo "$$out"; exit 1; fi

vet: ## go vet
	go vet ./...

$(STATICCHECK):
	@mkdir -p $(@D)
	GOBIN=$(@D) go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	@mv $(@D)/staticcheck $@

staticcheck: $(STATICCHECK) ## the pinned staticcheck, and vet of the benchmarks' module
	$(STATICCHECK) ./...
	cd bench && go vet ./... && $(STATICCHECK) ./...

rules: ## the rules of the house
	go test ./internal/testkit/lint

# Without optimization it takes two thirds of the time, and nobody runs it.
cross: ## build for the other platforms
	@for p in $(CROSS); do echo "build $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 go build -gcflags='-N -l' ./... || exit 1; done

short: ## all tests in their short form, with the race detector where goroutines meet
	@mkdir -p .bin && rm -f $(TALLY)
	CLEAVE_TALLY=$(TALLY) $(TEST) -p 3 -short -race -skip '$(BYTES)' $(RACE)
	CLEAVE_TALLY=$(TALLY) $(TEST) -short -run '$(BYTES)' ./internal/storage/store
	CLEAVE_TALLY=$(TALLY) $(TEST) -p 3 -short $$(go list ./... | grep -vxF "$$(go list $(RACE))")
	@scripts/tally $(TALLY)

long: ## all tests in full with the race detector, the fallback without assembly, and the benchmarks' tests
	@mkdir -p .bin && rm -f $(TALLY)
	CLEAVE_TALLY=$(TALLY) $(TEST) -race $$(go list ./... | grep -v internal/testkit/mutants)
	@scripts/tally $(TALLY)
	go test -tags purego ./route
	cd bench && $(TEST) ./...

mutants: ## plant every bug that the tests must catch, or those of the folders in MUTANTS
	CLEAVE_MUTANTS=$(MUTANTS) $(TEST) -count=1 -v ./internal/testkit/mutants

plant: ## put the mutants of all patches into the code, or those of the files and folders in MUTANTS, to edit them
	go run ./internal/testkit/mutants/mutate plant $(subst $(comma), ,$(MUTANTS))

extract: ## take the mutants out of the code again, into patches
	go run ./internal/testkit/mutants/mutate extract

soak: deps ## the long form of the tests with new seeds for SOAK minutes
	@scripts/soak $(SOAK) $(abspath $(SOAKED))

fuzz: ## fuzz every target for FUZZTIME each
	@scripts/fuzz $(FUZZTIME)

bench: ## measure against the peers; writes bench/RESULTS.md
	cd bench && go run . -out RESULTS.md

bench-redis: deps ## measure the server beside Redis, memcached and Valkey if there is one; writes bench/SERVER.md
	@command -v memcached >/dev/null || scripts/deps memcached
	cd bench && go run . -only server -rounds 21 -out SERVER.md

bench-scale: deps ## measure what more processors, loops, stores and groups buy or cost; writes bench/SCALE.md
	cd bench && go run . -only scale -rounds 15 -out SCALE.md

bench-memory: deps ## measure how much memory a key takes, beside Redis and Valkey if there is one; writes bench/MEMORY.md
	cd bench && go run ./memory -out MEMORY.md

bench-heat: deps ## play loads that make shards hot, and measure their relief; writes bench/HEAT.md
	cd bench && go run ./heat -out HEAT.md

bench-advise: ## measure how fast cleave advise reads CSV, beside wc, sort, and DuckDB if there is one; writes bench/ADVISE.md
	cd bench && go run ./advise -out ADVISE.md

screenshots: deps ## take the pictures of the documentation: plays loads for some minutes; writes docs/images
	go run -tags=pebblegozstd -pgo=off ./internal/ops/page/shots -out docs/images

profile: deps ## record where the server spends its time, for the compiler; writes cmd/cleave/default.pgo
	cd bench && go run ./profile -out ../cmd/cleave/default.pgo

build: ## the binary, as ./cleave
	CGO_ENABLED=0 go build -trimpath -o cleave ./cmd/cleave

measure: ## the measures of the style guide for this module, and for Pebble in PEBBLE or in the module cache
	@go run ./internal/testkit/measure . $(or $(PEBBLE),$$(go list -m -f '{{.Dir}}' github.com/cockroachdb/pebble/v2 2>/dev/null))
