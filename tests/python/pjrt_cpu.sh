#!/usr/bin/env bash
# Prints the path of xla_cpu_pjrt.so, XLA's CPU plugin, which takes the same PJRT calls as a TPU; see library.sh.
set -euo pipefail

version=0.0.1
bash "$(dirname "${BASH_SOURCE[0]}")/library.sh" xla-cpu-pjrt "$version" xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so \
    "${TILECAST_PJRT_CPU_CACHE:-$HOME/.cache/tilecast-xla-cpu-pjrt-$version}"
