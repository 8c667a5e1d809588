# The one command is `make test`. It is also what continuous integration runs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := test

GOLANGCI_VERSION := v2.15.0
GOVULNCHECK_VERSION := v1.9.0

# Tools live outside the module, so that they add nothing to go.mod. The Go
# version is part of the path: golangci-lint must be built with the Go it checks.
TOOLS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/rouse/tools/$(shell go env GOVERSION 2>/dev/null)
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint
GOVULNCHECK := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck

# A checkout may belong to somebody else; the checks need no version stamp.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false)

step = @printf '\n== %s (%s)\n' '$(1)' "$$(date +%T)"

.PHONY: test check deps build vet tidy lint vuln budgets race kill fmt help

test: deps check ## install what is missing, then run every check

check: build vet tidy lint vuln budgets race kill ## every check: what "done" means
	$(call step,all checks passed)

deps: ## install what the checks need (Debian packages)
	@.ci/deps

build: ## compile everything
	$(call step,build)
	@go build ./...

vet: ## go vet, tests included
	$(call step,vet)
	@go vet ./...

tidy: ## go.mod and go.sum say exactly what is used
	$(call step,go mod tidy -diff)
	@go mod tidy -diff

lint: $(GOLANGCI) ## golangci-lint with .golangci.yml
	$(call step,golangci-lint $(GOLANGCI_VERSION))
	@$(GOLANGCI) run --allow-parallel-runners ./... # another checkout may be at it

vuln: $(GOVULNCHECK) ## govulncheck, when its database can be reached
	$(call step,govulncheck $(GOVULNCHECK_VERSION))
	@.ci/vuln $(GOVULNCHECK)

budgets: ## print the table of sizes and their caps
	$(call step,size budgets)
	@go test -v -run '^TestBudgets$$' ./internal/checks

race: ## all tests: race detector, shuffled; the import graph and the budgets are tests too
	$(call step,go test -race -shuffle=on)
	@go test -race -shuffle=on -timeout 15m ./...

kill: ## SIGKILL at every fault point and at 200 random moments, without the race detector
	$(call step,kill -9)
	@go test -count=1 -timeout 10m -run '^TestKill' ./cmd/rouse ./store/sqlite

fmt: $(GOLANGCI) ## format the code
	@$(GOLANGCI) fmt ./...

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

$(GOLANGCI):
	$(call step,installing golangci-lint $(GOLANGCI_VERSION) (some minutes, once))
	@GOFLAGS= GOBIN=$(@D) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

$(GOVULNCHECK):
	$(call step,installing govulncheck $(GOVULNCHECK_VERSION))
	@GOFLAGS= GOBIN=$(@D) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
