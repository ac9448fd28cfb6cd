# `make test` is all that a change must pass; `make help` lists the rest.

STATICCHECK_VERSION := v0.8.2
STATICCHECK := $(CURDIR)/.bin/staticcheck-$(STATICCHECK_VERSION)
CROSS := linux/arm64 darwin/arm64 windows/amd64
FUZZTIME ?= 1m
# Minutes, and where the soak notes what it has done: it goes on from there, on another machine too.
SOAK ?= 480
SOAKED ?= .bin/soak
TALLY := $(CURDIR)/.bin/tally

# Tests do without cmd/cleave/default.pgo: to compile everything once more takes minutes.
vet staticcheck rules cross unit soak fuzz: export GOFLAGS += -pgo=off

.PHONY: help test deps format vet staticcheck rules cross unit soak fuzz bench bench-redis profile build

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: deps format vet staticcheck rules cross unit ## everything that a change must pass

deps: ## install what the tests need, or say what is missing
	@scripts/deps

format: ## fail on files that gofmt would change
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt -w these:"; echo "$$out"; exit 1; fi

vet: ## go vet, the benchmarks' module included
	go vet ./...
	cd bench && go vet ./...

$(STATICCHECK):
	@mkdir -p $(@D)
	GOBIN=$(@D) go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	@mv $(@D)/staticcheck $@

staticcheck: $(STATICCHECK) ## the pinned staticcheck
	$(STATICCHECK) ./...
	cd bench && $(STATICCHECK) ./...

rules: ## the rules of the house
	go test ./internal/lint

# Without optimization it takes two thirds of the time, and nobody runs it.
cross: ## build for the other platforms
	@for p in $(CROSS); do echo "build $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} CGO_ENABLED=0 go build -gcflags='-N -l' ./... || exit 1; done

# The linker takes half the time without what only debuggers read, and vet has been run.
unit: ## all tests with the race detector, then the fallback without assembly
	@mkdir -p .bin && rm -f $(TALLY)
	CLEAVE_TALLY=$(TALLY) go test -race -vet=off -ldflags=-w -timeout 40m ./...
	@scripts/tally $(TALLY)
	go test -tags purego ./route
	cd bench && go test -vet=off -ldflags=-w ./...

soak: deps ## the long form of the tests with new seeds for SOAK minutes, then fuzzing
	@scripts/soak $(SOAK) $(abspath $(SOAKED))
	$(MAKE) fuzz

fuzz: ## fuzz every target for FUZZTIME each
	@scripts/fuzz $(FUZZTIME)

bench: ## measure against the peers; writes bench/RESULTS.md
	cd bench && go run . -out RESULTS.md

bench-redis: deps ## measure the server beside Redis and memcached; writes bench/SERVER.md
	@command -v memcached >/dev/null || scripts/deps memcached
	cd bench && go run . -only server -rounds 21 -out SERVER.md

profile: deps ## record where the server spends its time, for the compiler; writes cmd/cleave/default.pgo
	cd bench && go run ./profile -out ../cmd/cleave/default.pgo

build: ## the binary, as ./cleave
	CGO_ENABLED=0 go build -trimpath -o cleave ./cmd/cleave
