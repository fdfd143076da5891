# Everything that is done with this project, by name. `make` alone lists it.

CARGO ?= cargo
# Seconds that each fuzz target runs in `make fuzz-quick`.
FUZZ_SECONDS ?= 60
# What `make attack` is told, such as --only h2-pings; empty for all attacks.
ATTACK_ARGS ?=
# How `make demo` runs; empty for as long as you like, until Ctrl-C.
DEMO_ARGS ?= --for 60s

.PHONY: help setup demo build test interop-full lint doc fuzz-quick attack

help:
	@echo "make setup        install what building, testing and measuring need"
	@echo "make demo         run registry, providers, agents and load on this machine, a minute, live"
	@echo "make build        the release binary, target/release/dubmesh, and its symbols beside it"
	@echo "make test         format, lints, docs, all tests, with real Java Dubbo, etcd and ZooKeeper"
	@echo "make interop-full every version of Dubbo with every other one, through one agent and two, and in Nacos' protocol; an hour"
	@echo "make lint         format and lints alone; also licences and advisories if cargo-deny is there"
	@echo "make doc          the documentation of the code, target/doc/dubmesh/index.html"
	@echo "make fuzz-quick   every fuzz target for $(FUZZ_SECONDS) s"
	@echo "make attack       hostile peers against the release binary, beside well-behaved callers; ten minutes"
	@echo "make bench-quick  all benchmarks, short; make bench: all, in full"

setup:
	@scripts/setup.sh build test bench

build:
	@scripts/setup.sh build
	$(CARGO) rustc --release --locked -p dubmesh --bin dubmesh -- -C strip=none
	@scripts/split-symbols.sh target/release/dubmesh

demo: build
	target/release/dubmesh demo $(DEMO_ARGS)

test:
	@scripts/setup.sh build test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	$(CARGO) test --workspace --locked

interop-full:
	@scripts/setup.sh build test nacos
	INTEROP_FULL=1 $(CARGO) test --locked -p interop-harness --test smoke -- --nocapture
	INTEROP_FULL=1 $(CARGO) test --locked -p dubmesh --test interop -- matrix:: --nocapture
	INTEROP_FULL=1 $(CARGO) test --locked -p dubmesh --test interop -- nacos:: moving:: --nocapture

lint:
	@scripts/setup.sh build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny check; \
	else echo "cargo-deny is not installed: licences and advisories are not checked (scripts/setup.sh lint)"; fi

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

fuzz-quick:
	@scripts/setup.sh build fuzz
	@scripts/fuzz.sh $(FUZZ_SECONDS)

attack:
	@scripts/setup.sh build attack
	$(CARGO) run --release --quiet --locked --package attack -- $(ATTACK_ARGS)

include bench/bench.mk
