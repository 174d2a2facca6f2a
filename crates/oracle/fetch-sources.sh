#!/usr/bin/env bash
# The kernel's own lib/dynamic_queue_limits.c with its header, and its tests of tc, of the linux-source packages that the
# guest's kernels were built from (`sojourn kernel build`), one folder for each series, into the user's cache. Unpacking a
# package takes some seconds. Does nothing for files that exist already. Fails if there is no such package. The build reads
# the cache and never the network.
set -eu -o pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sojourn
to=$cache/linux-sources
tests=tools/testing/selftests/tc-testing/tc-tests
files=(lib/dynamic_queue_limits.c include/linux/dynamic_queue_limits.h "$tests")

found=no
for package in "$cache"/kernel/sources/linux-source-*.tar.xz; do
    [ -e "$package" ] || continue
    found=yes
    name=$(basename "$package" .tar.xz)
    series=${name#linux-source-}
    series=${series%%_*}
    version=${name#*_}
    [ "$(cat "$to/$series/version" 2>/dev/null)" = "$version" ] && [ -d "$to/$series/$tests" ] && continue
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    tar -xJf "$package" -C "$work" --strip-components=1 --wildcards "${files[@]/#/linux-source-*/}"
    echo "$version" >"$work/version"
    mkdir -p "$to"
    rm -rf "${to:?}/$series"
    mv "$work" "$to/$series"
    echo "Linux $series: $package"
done
[ $found = yes ]
