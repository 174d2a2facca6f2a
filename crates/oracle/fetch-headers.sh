#!/usr/bin/env bash
# The kernel's own codel.h and codel_impl.h, one pair for each series of kernels that we claim to equal, out of Debian's
# linux-headers-*-common packages, without root, into the user's cache. Does nothing for headers that exist already. Fails
# if a series is not available. The build reads the cache and never the network.
set -eu -o pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sojourn/linux-headers
# A series, and the Debian suite that has it if the system's own package lists do not.
series_and_suite="6.1:bookworm 6.12:trixie 7:trixie-backports"

complete=yes
for pair in $series_and_suite; do
    [ -e "$cache/${pair%%:*}/version" ] || complete=no
done
if [ $complete = yes ]; then
    echo "kernel headers are in $cache: $(cat "$cache"/*/version | paste -sd' ')"
    exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "fetch-headers: no apt-get and dpkg-deb here, so the kernel's headers can't be had" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# newest SERIES [APT OPTION...]: the newest package of a series that apt knows.
newest() {
    local series=${1//./\\.}
    shift
    apt-cache "$@" search --names-only "^linux-headers-${series}\.[0-9].*-common\$" | awk '{ print $1 }' | sort -V | tail -n 1
}

# Options for package lists of our own, for one suite on the system's own mirror. Nothing of the system's is touched.
own_lists() {
    local suite=$1 mirror
    mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -n 1)
    [ -n "$mirror" ] || return 1
    mkdir -p "$work/$suite/lists/partial" "$work/$suite/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$work/$suite/sources.list"
    options=(-o "Dir::Etc::sourcelist=$work/$suite/sources.list" -o "Dir::Etc::sourceparts=-"
        -o "Dir::State::lists=$work/$suite/lists" -o "Dir::Cache=$work/$suite" -o "APT::Sandbox::User=$(id -un)")
    apt-get -qq "${options[@]}" update
}

# unpack SERIES [APT OPTION...]: the two headers of the newest package of a series into $work/new.
unpack() {
    local series=$1 package
    shift
    package=$(newest "$series" "$@")
    [ -n "$package" ] || return 1
    rm -rf "$work/root" "$work/new" "$work/${package}"_*.deb
    mkdir -p "$work/root" "$work/new/net"
    (cd "$work" && apt-get -qq -o "APT::Sandbox::User=$(id -un)" "$@" download "$package" 2>/dev/null) || return 1
    dpkg-deb --fsys-tarfile "$work/${package}"_*.deb |
        tar -x -C "$work/root" --wildcards '*/include/net/codel.h' '*/include/net/codel_impl.h' || return 1
    cp "$work"/root/usr/src/"$package"/include/net/codel{,_impl}.h "$work/new/net/" || return 1
    dpkg-deb -f "$work/${package}"_*.deb Version >"$work/new/version"
    echo "Linux $series: $package"
}

# fetch SERIES SUITE: from the system's package lists; if they do not have it, from lists of our own.
fetch() {
    unpack "$1" || { own_lists "$2" && unpack "$1" "${options[@]}"; } || return 1
    mkdir -p "$cache"
    rm -rf "${cache:?}/$1"
    mv "$work/new" "$cache/$1"
}

missing=0
for pair in $series_and_suite; do
    series=${pair%%:*}
    [ -e "$cache/$series/version" ] && continue
    if ! fetch "$series" "${pair#*:}"; then
        echo "fetch-headers: no linux-headers-$series*-common to be had" >&2
        missing=1
    fi
done
exit $missing
