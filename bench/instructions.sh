#!/bin/bash
# Instructions per call of an agent with one worker, in user space, counted by callgrind:
#
#   bench/instructions.sh [hop|json|form]...
#
# Prints one line for each path; README.md says what they are. DUBMESH_BIN names the agent's
# program. Needs valgrind, wrk, and the programs `dubmesh` and `bench`, built with --release. It
# uses the ports from 21100 on. Profiles for callgrind_annotate stay in bench/results/raw; names
# and lines are in them if the agent was built with CARGO_PROFILE_RELEASE_STRIP=none.
# AGENT_KEYS is more of the agent's section [agent], such as 'stage_sample = 0'. With CACHES=1 the
# first caches are simulated, too, on a slower clock (src/slow_clock.c; needs a C compiler).
set -eu
cd "$(dirname "$0")/.."
dubmesh=${DUBMESH_BIN:-target/release/dubmesh}
bench=${BENCH_BIN:-target/release/bench}
seconds=${BENCH_SECONDS:-10}
folder=$(mktemp -d)
pids=()
end() { for pid in "${pids[@]}"; do kill -9 "$pid" && wait "$pid" || true; done 2>/dev/null; pids=(); }
trap 'end; rm -rf "$folder"' EXIT
mkdir -p bench/results/raw
touch "$folder/log"
hash_service=$(sed -n 's/^pub const INTERFACE: &str = "\(.*\)";/\1/p' bench/src/load.rs)

start() {
    "$@" >"$folder/log" 2>&1 &
    pids+=($!)
}

# agent NAME ADMIN-PORT CONFIGURATION [BEFORE THE COMMAND...]
agent() {
    printf '[agent]\nworkers = 1\n%s\n[log]\nlevel = "warn"\n[admin]\nlisten = "127.0.0.1:%s"\n%s' \
        "${AGENT_KEYS:-}" "$2" "$3" >"$folder/$1.toml"
    start "${@:4}" "$dubmesh" run --config "$folder/$1.toml"
    until curl -fso "$folder/ready" "http://127.0.0.1:$2/readyz"; do
        kill -0 $!
        sleep 0.1
    done
}

# What has to run before the agent is counted.
callgrind=(valgrind --tool=callgrind "--callgrind-out-file=$folder/callgrind")
if [ -n "${CACHES:-}" ]; then
    cc -O2 -shared -fPIC -o "$folder/slow_clock.so" bench/src/slow_clock.c
    callgrind=(env "LD_PRELOAD=$folder/slow_clock.so" "${callgrind[@]}" --cache-sim=yes
        --I1=32768,8,64 --D1=32768,8,64 --LL=1048576,16,64)
fi

service() { printf '[[service]]\ninterface = "%s"\nendpoints = ["%s"]\n' "$1" "$2" >"$folder/services.toml"; }
registry='[[registry]]
kind = "file"
path = "'$folder'/services.toml"
'
http=$registry'[[ingress]]
protocol = "http"
listen = "127.0.0.1:21101"
'
provider() { start "$dubmesh" provider --listen 127.0.0.1:21103 --work-ms 0 --interface "$hash_service"; }

# load STYLE SECONDS: prints how many calls were answered.
load() {
    if [ "$1" = hop ]; then
        "$bench" raw-dubbo-load 127.0.0.1:21102 4 64 0 $(($2 * 1000)) | sed 's/.*"calls":\([0-9]*\).*/\1/'
        return
    fi
    cat >"$folder/load.lua" <<END
math.randomseed(1)
local load = { host = "127.0.0.1", bodies = {} }
for i = 1, 1000 do
    local text = {}
    for j = 1, math.random(0, 1023) do text[j] = string.char(math.random(97, 122)) end
    text = table.concat(text)
    if "$1" == "json" then
        load.path, load.content_type = "/$hash_service/hash", "application/json"
        load.bodies[i] = '["' .. text .. '"]'
    else
        load.path, load.content_type = "/", "application/x-www-form-urlencoded"
        load.bodies[i] = "interface=$hash_service&method=hash" ..
            "&parameterTypesString=Ljava%2Flang%2FString%3B&parameter=" .. text
    end
end
return load
END
    wrk -t1 -c64 "-d$2s" -s bench/src/wrk.lua http://127.0.0.1:21101/ -- "$folder/load.lua" >"$folder/wrk"
    grep -q '"status":0,' "$folder/wrk" || { cat "$folder/wrk" >&2; exit 1; }
    sed -n 's/^RESULT.*"requests":\([0-9]*\).*/\1/p' "$folder/wrk"
}

# Instructions so far; the next are counted anew. With CACHES, also, of these and among others, the
# lines of code (4th) and of data (5th read, 6th written) that were not in the first cache.
dump() {
    callgrind_control --dump "$1" >"$folder/control"
    cat "$folder"/callgrind.* | sed -n 's/^totals: //p'
    mv "$folder"/callgrind.* "bench/results/raw/callgrind.$2"
}

for path in "${@:-hop json form}"; do for path in $path; do
    case $path in
    hop)
        start "$bench" raw-dubbo-provide
        until grep -q READY "$folder/log"; do sleep 0.1; done
        service bench.Echo "dubbo://$(sed -n 's/^READY //p' "$folder/log")"
        agent consumer 21100 "$registry"'[[ingress]]
protocol = "dubbo"
listen = "127.0.0.1:21102"
' "${callgrind[@]}"
        ;;
    json | form)
        service "$hash_service" "dubbo://127.0.0.1:21103?serialization=hessian2"
        provider
        agent consumer 21100 "$http" "${callgrind[@]}"
        ;;
    esac
    counted=$!
    [ "$path" = hop ] || until curl -fso "$folder/answer" -d '["x"]' -H 'content-type: application/json' \
        "http://127.0.0.1:21101/$hash_service/hash"; do sleep 0.1; done
    sleep 1
    load "$path" 2 >"$folder/warm"
    dump $counted "$path" >"$folder/start"
    short=$(load "$path" 2) short_cost=($(dump $counted "$path"))
    long=$(load "$path" "$seconds") long_cost=($(dump $counted "$path"))
    each() { echo $(((long_cost[$1] - short_cost[$1]) / (long - short))); }
    echo "$path: $(each 0) instructions a call ($((long - short)) calls)"
    if [ -n "${CACHES:-}" ]; then
        echo "$path: lines fetched a call: $(each 3) of code, $(($(each 4) + $(each 5))) of data"
    fi
    end
done; done
