# The benchmarks; bench/README.md says what they measure and how to read them.
# BENCH_SECONDS=5 shortens each measurement, BENCH_ROUNDS=1 makes one of each instead of three.

BENCH = cargo run --release --quiet --package bench --

.PHONY: bench bench-quick bench-contest bench-saturation bench-footprint bench-hop bench-rpc bench-transfer bench-codec bench-congestion bench-mixed bench-overload bench-faults bench-registries

bench: ## All benchmarks, with their results in bench/results (about two and a half hours)
	$(BENCH) all

bench-quick: ## All benchmarks, too short to be quoted (under two minutes once all is built)
	$(BENCH) all --quick

bench-contest: ## HTTP to three Java providers of 50 ms through two agents, with etcd
	$(BENCH) contest

bench-saturation: ## The same without the 50 ms, against a server that only answers
	$(BENCH) saturation

bench-footprint: ## Memory of an agent, and how soon it is ready
	$(BENCH) footprint

bench-hop: ## One agent between Dubbo consumers and a provider, beside the same without it
	$(BENCH) hop

bench-rpc: ## The RPC library beside bare sockets, tonic, tarpc and volo, each side on a core of its own
	$(BENCH) rpc --pinned

bench-transfer: ## A file's lines, one request a line, beside bare sockets and no network at all
	$(BENCH) transfer

bench-codec: ## The Hessian codec beside hessian-lite and dubbo-go-hessian2, on the same bytes
	$(BENCH) codec

bench-congestion: ## Connections and socket buffers under many callers, beside Java's own client
	$(BENCH) congestion

bench-mixed: ## Small calls beside replies of 5 MB, by links and by Dubbo TCP
	$(BENCH) mixed

bench-overload: ## More calls than Java providers can take, with and without limits, in an open loop
	$(BENCH) overload

bench-faults: ## Processes that die or hang, networks that drop or delay, restarts, under a steady load
	$(BENCH) faults

bench-registries: ## Long lists, many services and floods of changes in ZooKeeper and etcd, and a killed store
	$(BENCH) registries
