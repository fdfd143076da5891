#!/bin/bash
# Runs fuzz targets, each for so many seconds:
#
#   scripts/fuzz.sh SECONDS [TARGET]...      without a name: all of them
#
# The pinned compiler is enough: LLVM counts what is covered, and libFuzzer reads that. What is
# left out is AddressSanitizer, which only a nightly compiler has.
# What was found before is kept in fuzz/corpus; what makes a target fail is in fuzz/artifacts.
set -eu
cd "$(dirname "$0")/../fuzz"
seconds=${1:?so many seconds for each target}
shift
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="--cfg fuzzing -Cdebug-assertions -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
cargo build --release --locked --all-features --target "$host"
python3 seeds.py
if [ $# -eq 0 ]; then
    # shellcheck disable=SC2046 # names without blanks
    set -- $(basename -s .rs fuzz_targets/*.rs)
fi
for target; do
    echo "fuzzing $target for $seconds s"
    mkdir -p "corpus/$target" "artifacts/$target"
    log=artifacts/$target/log
    if ! "target/$host/release/$target" "corpus/$target" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=1024 -artifact_prefix="artifacts/$target/" >"$log" 2>&1; then
        tail -n 40 "$log"
        echo "$target failed; the input is named above: fuzz/target/$host/release/$target INPUT"
        exit 1
    fi
    grep "^Done" "$log"
done
