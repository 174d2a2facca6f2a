#!/usr/bin/env bash
# build.sh FOLDER: builds tc's plugins q_ccaq.so, q_ccaq_paper.so and q_dualpi2.so into FOLDER, against the sources of the tc that is in the
# path. They come from the system's own mirror without root (the newest Debian package of that version), or from the tree IPROUTE2 names.
set -eu -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?"which folder are the plugins to go into?"}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tree=${IPROUTE2:-}
if [ -z "$tree" ]; then
    version=$(tc -V | sed -E 's/.*iproute2-([0-9]+\.[0-9]+).*/\1/')
    mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' | grep -E '/debian/?$' | head -n 1)
    [ -n "$mirror" ] || { echo "build.sh: apt knows no Debian mirror: name a tree of iproute2 $version in IPROUTE2" >&2; exit 2; }
    mkdir -p "$work/lists/partial" "$work/archives/partial"
    for suite in bookworm trixie trixie-backports; do
        echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
    done >"$work/sources.list"
    options=(-o "Dir::Etc::sourcelist=$work/sources.list" -o "Dir::Etc::sourceparts=-" -o "Dir::State::lists=$work/lists"
        -o "Dir::Cache=$work" -o "APT::Sandbox::User=$(id -un)")
    apt-get -qq "${options[@]}" update
    exact=$(apt-cache "${options[@]}" showsrc iproute2 | sed -n 's/^Version: //p' | grep -E "^${version//./\\.}(\.|-)" | sort -V | tail -n 1 || true)
    [ -n "$exact" ] || { echo "build.sh: no Debian source of iproute2 $version: name a tree in IPROUTE2" >&2; exit 2; }
    (cd "$work" && apt-get -qq "${options[@]}" source --download-only "iproute2=$exact" >/dev/null)
    mkdir "$work/tree"
    tar -x -C "$work/tree" --strip-components=1 -f "$work"/iproute2_*.orig.tar.xz
    tree=$work/tree
fi
for name in q_ccaq q_ccaq_paper q_dualpi2; do
    ${CC:-gcc} -O2 -Wall -Wextra -Wno-unused-parameter -shared -fPIC -D_GNU_SOURCE \
        -I"$tree/include" -I"$tree/include/uapi" -I"$tree/tc" -o "$out/$name.so.new" "$here/$name.c"
    mv "$out/$name.so.new" "$out/$name.so"
    echo "$out/$name.so: for $(tc -V)"
done
