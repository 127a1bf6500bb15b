#!/usr/bin/env bash
# library.sh PACKAGE VERSION FILE CACHE: prints the path of a shared library in a wheel, after fetching the wheel from PyPI
# into the folder CACHE if it is not there. Linux on x86-64 only; needs Python with pip.
set -euo pipefail

package=$1 version=$2 file=$3 cache=$4
if [ ! -f "$cache/$file" ]; then
    python=$(bash "$(dirname "${BASH_SOURCE[0]}")/setup.sh")
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    "$python" -m pip download --quiet --no-deps --only-binary :all: --dest "$folder" "$package==$version" >&2
    mkdir -p "$cache.partial"
    "$python" -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2], sys.argv[3])' \
        "$folder"/*.whl "$file" "$cache.partial"
    mv -T "$cache.partial" "$cache"
fi
echo "$cache/$file"
