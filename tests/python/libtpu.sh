#!/usr/bin/env bash
# Prints the path of libtpu.so, the TPU compiler, after fetching its wheel from PyPI into a cache if it is not there.
# Linux on x86-64 only; needs Python with pip. Its licence is Google's: it is not part of this project.
set -euo pipefail

version=0.0.51
cache=${TILECAST_LIBTPU_CACHE:-$HOME/.cache/tilecast-libtpu-$version}
library=$cache/libtpu/libtpu.so
if [ ! -f "$library" ]; then
    python=$(bash "$(dirname "${BASH_SOURCE[0]}")/setup.sh")
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" "libtpu==$version" >&2
    mkdir -p "$cache.partial"
    "$python" -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract("libtpu/libtpu.so", sys.argv[2])' \
        "$folder"/libtpu-*.whl "$cache.partial"
    mv -T "$cache.partial" "$cache"
fi
echo "$library"
