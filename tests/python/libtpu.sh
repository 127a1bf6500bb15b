#!/usr/bin/env bash
# Prints the path of libtpu.so, the TPU compiler; see library.sh. Its licence is Google's: it is not part of this project.
set -euo pipefail

version=0.0.51
bash "$(dirname "${BASH_SOURCE[0]}")/library.sh" libtpu "$version" libtpu/libtpu.so \
    "${TILECAST_LIBTPU_CACHE:-$HOME/.cache/tilecast-libtpu-$version}"
