#!/bin/sh
# Installs what building, testing, measuring or fuzzing Dubmesh needs on a Debian-like machine.
#
#   scripts/setup.sh [build|test|bench|attack|fuzz|lint|nacos]...      without a name: build test
#
# It can be run again at any time, asks nothing, and changes nothing that is already there. As
# root it uses apt-get, else sudo if that asks for no password; else it prints the command that
# somebody has to run, and exits with status 1.
set -eu

# Where tools go that are for this checkout alone.
tools=$(cd "$(dirname "$0")/.." && pwd)/.tools
h2spec_version=v2.2.1+incompatible
rnacos_version=0.8.8

usage() {
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit "$1"
}

say() {
    echo "setup: $*"
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Whether there is a JDK of version 17 or later (a JRE alone cannot compile the peers).
has_jdk() {
    has javac || return 1
    version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
    [ "${version:-0}" -ge 17 ]
}

# Whether protoc finds the types that come with it: Debian packs them apart from it.
has_protobuf_types() {
    echo 'syntax = "proto3"; import "google/protobuf/struct.proto";' |
        protoc --proto_path=/dev ${PROTOC_INCLUDE:+"--proto_path=$PROTOC_INCLUDE"} \
            --descriptor_set_out=/dev/null /dev/stdin 2>/dev/null
}

in_apt() {
    apt-cache show "$1" >/dev/null 2>&1
}

# The first of the packages that this release of the distribution has; else the first.
first_in_apt() {
    for candidate in "$@"; do
        if in_apt "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "$1"
}

packages=
# need REASON PACKAGE [OTHER_NAME_OF_IT]...
need() {
    reason=$1
    shift
    package=$(first_in_apt "$@")
    case "$packages " in
    *" $package "*) return ;;
    esac
    say "missing: $package ($reason)"
    packages="$packages $package"
}

check_build() {
    has cargo || {
        say "missing: Rust; see https://rustup.rs, then run this again"
        exit 1
    }
    has cc || need "links Rust programs" gcc
    has protoc || need "builds the etcd client" protobuf-compiler
    has_protobuf_types || need "builds the etcd client" libprotobuf-dev
}

check_test() {
    check_build
    has etcd || [ -n "${ETCD_BIN:-}" ] || need "the registry in tests" etcd-server etcd
    has etcdctl || [ -n "${ETCDCTL_BIN:-}" ] || need "looks into etcd" etcd-client etcd
    has_jdk || need "runs the Java peers" openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless
    has mvn || need "builds the Java peers" maven
    has node || [ -n "${NODE_BIN:-}" ] || need "runs an HTTP app in tests" nodejs
    has python3 || [ -n "${PYTHON_BIN:-}" ] || need "runs an HTTP app in tests" python3
    has go || [ -n "${GO_BIN:-}" ] || need "runs an HTTP app in tests" golang-go
    has ip || need "joins network namespaces" iproute2
    has ethtool || need "sets up network namespaces" ethtool
    has nsenter || need "enters network namespaces" util-linux
}

check_bench() {
    check_test
    has wrk || need "makes the load" wrk
}

check_fuzz() {
    check_build
    has c++ || need "builds libFuzzer" g++
    has python3 || need "writes what fuzzing begins with" python3
}

check_attack() {
    check_build
    has_h2spec || has go || need "builds h2spec, the conformance test of HTTP/2" golang-go
}

has_h2spec() {
    [ -n "${H2SPEC_BIN:-}" ] || has h2spec || [ -x "$tools/h2spec" ]
}

# Its own releases are binaries for few machines; its source builds everywhere.
install_attack() {
    if has_h2spec; then
        say "have: h2spec"
    else
        say "installing: h2spec"
        GOBIN=$tools go install "github.com/summerwind/h2spec/cmd/h2spec@$h2spec_version"
    fi
}

has_rnacos() {
    [ -n "${RNACOS_BIN:-}" ] || has rnacos || [ -x "$tools/rnacos" ]
}

check_nacos() {
    check_build
    has_rnacos || has c++ || need "builds rnacos" g++
}

# A server that is compatible with Nacos, which itself is in no package registry.
install_nacos() {
    if has_rnacos; then
        say "have: rnacos"
    else
        say "installing: rnacos $rnacos_version (ten minutes and more on two cores)"
        cargo install --locked "rnacos@$rnacos_version" --root "$tools/cargo"
        ln -sf cargo/bin/rnacos "$tools/rnacos"
    fi
}

# A tool that cargo itself installs, for this user and without root.
cargo_install() {
    if has "$1"; then
        say "have: $1"
    else
        say "installing: $1"
        cargo install --locked "$1"
    fi
}

# Keeps packages from starting services: tests start etcd themselves, on free ports.
without_services() {
    policy=/usr/sbin/policy-rc.d
    if [ -e "$policy" ]; then
        "$@"
        return
    fi
    $as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
    status=0
    "$@" || status=$?
    $as_root rm -f "$policy"
    return "$status"
}

install_packages() {
    [ -n "$packages" ] || return 0
    if ! has apt-get; then
        say "this is no Debian-like machine: install what these packages hold by other means:$packages"
        exit 1
    fi
    if [ "$(id -u)" -eq 0 ]; then
        as_root=env
    elif has sudo && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        say "root has to run: apt-get update && apt-get install -y --no-install-recommends$packages"
        exit 1
    fi
    say "installing:$packages"
    # shellcheck disable=SC2086  # Both hold several words on purpose.
    without_services $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends --no-upgrade $packages
}

# Package names can only be looked up, and packages only be found, with the lists at hand.
update_lists() {
    has apt-get || return 0
    [ -z "$(find /var/lib/apt/lists -name '*Packages*' 2>/dev/null | head -n 1)" ] || return 0
    if [ "$(id -u)" -eq 0 ]; then
        apt-get update -q
    elif has sudo && sudo -n true 2>/dev/null; then
        sudo -n apt-get update -q
    fi
}

[ $# -gt 0 ] || set -- build test
for name in "$@"; do
    case $name in
    build | test | bench | attack | fuzz | lint | nacos) ;;
    -h | --help) usage 0 ;;
    *)
        say "unknown set: $name" >&2
        usage 2 >&2
        ;;
    esac
done

update_lists
for name in "$@"; do
    packages_before=$packages
    case $name in
    lint) check_build ;;
    *) "check_$name" ;;
    esac
    [ "$packages" != "$packages_before" ] || say "have: everything for '$name' that apt installs"
done
install_packages
for name in "$@"; do
    case $name in
    attack) install_attack ;;
    nacos) install_nacos ;;
    lint) cargo_install cargo-deny ;;
    esac
done
say "ready for: $*"
