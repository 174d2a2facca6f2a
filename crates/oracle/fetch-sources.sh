#!/usr/bin/env bash
# The kernel's own lib/dynamic_queue_limits.c and its header, of the linux-source packages that the guest's kernels were
# built from (`sojourn kernel build`), one pair for each series, into the user's cache: from a kernel's folder, or out of the
# package, which takes its time to unpack. Does nothing for what is there. Fails if there is no such package. The build looks
# into the cache and never at the network.
set -eu -o pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sojourn
to=$cache/linux-sources
files=(lib/dynamic_queue_limits.c include/linux/dynamic_queue_limits.h)

found=no
for package in "$cache"/kernel/sources/linux-source-*.tar.xz; do
    [ -e "$package" ] || continue
    found=yes
    name=$(basename "$package" .tar.xz)
    series=${name#linux-source-}
    series=${series%%_*}
    version=${name#*_}
    [ "$(cat "$to/$series/version" 2>/dev/null)" = "$version" ] && continue
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    # Perhaps no kernel was built from this package: to find none is no failure, the package is unpacked then.
    tree=$(grep -lF "\"source\": \"linux-source-$series $version\"" "$cache"/kernel/*/kernel.json 2>/dev/null | head -n 1 || true)
    tree=${tree%/kernel.json}/source
    if ! (cd "$tree" && cp --parents "${files[@]}" "$work") 2>/dev/null; then
        tar -xJf "$package" -C "$work" --strip-components=1 --wildcards "${files[@]/#/linux-source-*/}"
    fi
    echo "$version" >"$work/version"
    mkdir -p "$to"
    rm -rf "${to:?}/$series"
    mv "$work" "$to/$series"
    echo "Linux $series: $package"
done
[ $found = yes ]
