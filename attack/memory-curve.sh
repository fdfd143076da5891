#!/bin/sh
# Prints the resident memory of an agent in MB: idle, after bursts of long messages, with many
# connections, and after they have left. For comparing allocators:
#
#   attack/memory-curve.sh target/release/dubmesh
#   MALLOC_ARENA_MAX=1 attack/memory-curve.sh OTHER/dubmesh
#
# The environment goes to the agent alone. Needs the program `attack`, built with --release;
# ATTACK_BIN names another one. It uses the ports from 21000 on, and takes about a minute and a
# half.
set -eu

dubmesh=${1:?the program to measure}
attack=${ATTACK_BIN:-target/release/attack}
folder=$(mktemp -d)
pids=""
trap 'for pid in $pids; do kill "$pid" 2>/dev/null || true; done; rm -rf "$folder"' EXIT

provider() {
    env -u MALLOC_ARENA_MAX -u GLIBC_TUNABLES "$dubmesh" provider --listen "127.0.0.1:$1" --work-ms 0 --interface "$2" \
        >"$folder/provider-$1.log" 2>&1 &
    pids="$pids $!"
    printf '[[service]]\ninterface = "%s"\nendpoints = ["dubbo://127.0.0.1:%s"]\n' "$2" "$1" >>"$folder/services.toml"
}

# What the hostile peers of the two attacks call.
provider 21001 com.bulk.BulkService
provider 21002 "$(sed -n 's/^pub const INTERFACE: &str = "\(.*\)";/\1/p' bench/src/load.rs)"
cat >"$folder/agent.toml" <<END
[admin]
listen = "127.0.0.1:21003"
[[registry]]
kind = "file"
path = "$folder/services.toml"
[[ingress]]
protocol = "http"
listen = "127.0.0.1:21000"
max_connections = 11000
END
"$dubmesh" run --config "$folder/agent.toml" >"$folder/agent.log" 2>&1 &
agent=$!
pids="$pids $agent"
until curl -sf http://127.0.0.1:21003/healthz >/dev/null; do
    kill -0 "$agent" || { cat "$folder/agent.log"; exit 1; }
    sleep 0.1
done

resident_mb() {
    awk '/^VmRSS/ { printf "%.1f", $2 * 1.024 / 1000 }' "/proc/$agent/status"
}

sleep 1
idle=$(resident_mb)
"$attack" peer 8mb-bursts 127.0.0.1:21000 20 >"$folder/bursts.json"
sleep 5
bursts=$(resident_mb)
"$attack" peer 10000-connections 127.0.0.1:21000 30 >"$folder/connections.json" &
peer=$!
pids="$pids $peer"
sleep 25
connections=$(resident_mb)
open=$(curl -sf http://127.0.0.1:21003/metrics | awk '/^dubmesh_connections_open\{/ { sum += $2 } END { print sum }')
wait "$peer"
sleep 10
after=$(resident_mb)
echo "idle $idle, after bursts $bursts, with $open connections $connections, after they left $after"
