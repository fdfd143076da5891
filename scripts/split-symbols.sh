#!/usr/bin/env bash
# Moves the debug information of a program to PROGRAM.debug beside it, where the program itself,
# gdb and perf find it. Usage: scripts/split-symbols.sh PROGRAM
set -euo pipefail
program=$1
if ! command -v objcopy >/dev/null; then
  echo "objcopy is not there (package binutils): $program keeps its debug information" >&2
  exit 0
fi
folder=$(dirname "$program") name=$(basename "$program")
cd "$folder"
trap 'rm -f "$name.small"' EXIT
objcopy --only-keep-debug --compress-debug-sections=zlib "$name" "$name.debug"
chmod -x "$name.debug"
objcopy --strip-debug --add-gnu-debuglink="$name.debug" "$name" "$name.small"
# By a rename: cargo's own copy of the program, and one that runs, stay as they are.
mv "$name.small" "$name"
