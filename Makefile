# cpbench: the targets that people and CI use. Two commands are enough on a fresh machine that has Go:
#   make demo    builds cpbench and runs the first sweep here: no GPU, no Python, no Slurm
#   make test    brings what the tests need (as root on Debian) and runs them
SHELL   := /bin/bash
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LINT    := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
STAT    := go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
FUZZ    := ./plan:FuzzLoad:30000 ./worker/result:FuzzDecode:80000 ./worker/model/protocol:FuzzDecode:150000 \
           ./worker/evidence:FuzzClassify:2000 ./worker/gpu/source:FuzzRows:50000 ./worker/gpu/source:FuzzDecodeAnswer:50000 \
           ./worker/llm/stream/sse:FuzzParse:80000 ./worker/llm/stream/chat:FuzzDecode:50000 ./worker/llm/account:FuzzJudge:50000 \
           ./worker/llm/scrape:FuzzParse:30000 ./worker/llm/prompt:FuzzLines:20000
TORCH   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cpbench/torch
export CGO_ENABLED ?= 0

.PHONY: build demo test deps torch-test torch-latest torch-latest-test llm-server llm-server-test gpu-test race lint fuzz bench docs slurm-test clean

build: ## bin/cpbench, static, and its GPU helper where there is a C compiler
	go build -trimpath -ldflags '-s -w -X main.built=$(VERSION)' -o bin/cpbench ./cmd/cpbench
	@if command -v cc >/dev/null; then CGO_ENABLED=1 CGO_CFLAGS='-O2 -Wno-deprecated-declarations' go build -trimpath -ldflags '-s -w' -o bin/cpbench-nvml ./cmd/cpbench-nvml; \
	else echo "no C compiler: bin/cpbench-nvml, which reads the GPUs' counters, is left out"; fi

demo: build ## the first sweep on this machine
	bin/cpbench run configs/quickstart.yaml

deps: ## what the tests need beside Go; says what it does
	bash slurm/slurmtest/install.sh

test: deps ## every test; says which suites are left out
	go test -timeout 30m ./...

slurm-test: ## the suites on a real Slurm alone, with its accounting
	bash slurm/slurmtest/install.sh accounting
	CPBENCH_TEST_REQUIRE=slurm,accounting go test -count=1 -timeout 20m -run Slurm ./slurm/... ./cmd/...

torch-test: ## the suites on a real PyTorch, that of Debian
	bash slurm/slurmtest/install.sh torch
	CPBENCH_TEST_REQUIRE=torch go test -count=1 -timeout 15m -run '^TestTorch' ./worker/model ./cmd/cpbench

torch-latest: $(TORCH)/bin/torchrun ## a current PyTorch in the cache folder; several GB
$(TORCH)/bin/torchrun:
	python3 -m venv $(TORCH)
	$(TORCH)/bin/pip install -q torch==2.15.0 numpy

torch-latest-test: torch-latest ## real torchrun processes, on one node and on two of a real Slurm
	CPBENCH_TEST_REQUIRE=slurm,torch,torchrun CPBENCH_TEST_PYTHON=$(TORCH)/bin/python CPBENCH_TEST_TORCHRUN=$(TORCH)/bin/python \
	  go test -count=1 -timeout 20m -run 'Torchrun|TorchPairformer$$|TorchEndings' ./worker/model ./cmd/cpbench

llm-server: ## a real vLLM for the CPU, with a tiny model, in the cache folder; several GB
	bash worker/llm/llmtest/server/install.sh

llm-server-test: llm-server ## a sweep on it, and vLLM's own client beside ours
	CPBENCH_TEST_REQUIRE=llm go test -count=1 -timeout 20m -run '^(TestLLMServer|TestLLMServerKilled|TestVLLMClient)$$' ./cmd/cpbench ./worker/llm/account/peer

gpu-test: build ## the shipped model on this machine's GPUs; python3 needs a torch that sees them
	CPBENCH_TEST_GPU=1 go test -count=1 -timeout 10m -v -run '^TestGPU$$' ./cmd/cpbench

race: ## the tests under the race detector; needs a C compiler
	CGO_ENABLED=1 go test -race -skip '^TestTorch' -timeout 20m ./plan/... ./slurm/... ./worker/... ./collect/... ./cmd/cpbench-nvml

lint:
	$(LINT) run

fuzz: ## each target for so many inputs; a time would end a slow target in an error of its own
	@set -e; for t in $(FUZZ); do IFS=: read -r pkg name count <<<"$$t"; echo "$$pkg $$name"; \
	  go test -run '^$$' -fuzz "^$$name$$" -fuzztime "$${count}x" -fuzzminimizetime 10x "$$pkg"; done

bench: ## the numbers of docs/benchmarks.md
	mkdir -p bin
	go test -run '^$$' -bench . -skip 'RoundTrip|Decode|Harness$$|Clients$$' -benchtime 1x -count 6 ./... | tee bin/bench.txt
	go test -run '^$$' -bench 'RoundTrip|Decode|Harness$$' -benchtime 1000x -count 6 ./worker/... | tee -a bin/bench.txt
	go test -run '^$$' -bench '^BenchmarkClients$$' -benchtime 1x -count 3 -timeout 30m ./worker/llm/health/pace | tee -a bin/bench.txt
	$(STAT) bin/bench.txt

docs: ## the generated references
	go test ./plan ./cmd/cpbench -run Docs -update

clean:
	rm -rf bin cpbench-runs
