#!/usr/bin/env bash
# Makes, or finds again, the virtual environment of the comparison and prints the path of its Python on stdout.
#
#     python=$(bash tests/python/setup.sh) && "$python" tests/python/compare.py
#
# The environment lives in $TILECAST_VENV, by default in ~/.cache under a name that holds the hash of requirements.txt and
# the Python version. On Linux the first run downloads 2.6 GB (torch and the CUDA libraries its wheel is linked to) and
# takes 4.6 GB of disk; later runs take no time.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
requirements=$here/requirements.txt

say() { printf 'setup: %s\n' "$*" >&2; }

# A Python that can make an environment and is new enough for the pinned versions.
usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

# Sets `python` to a name on PATH. A pyenv shim exists for every version but works only for the selected one, so a shim
# that fails is asked again with a version pyenv says it has.
find_python() {
    local minor version
    for minor in 3.13 3.12; do
        python=python$minor
        command -v "$python" >/dev/null || continue
        usable "$python" && return
        if command -v pyenv >/dev/null; then
            version=$(pyenv versions --bare | grep -E "^${minor/./\\.}\.[0-9]+$" | sort -V | tail -n 1 || true)
            if [ -n "$version" ]; then
                export PYENV_VERSION=$version
                usable "$python" && return
                unset PYENV_VERSION
            fi
        fi
    done
    python=python3
    usable "$python"
}

if ! find_python; then
    say "no Python 3.12 or newer with venv and ensurepip among python3.13, python3.12, python3"
    exit 1
fi

key=$("$python" - "$requirements" <<'PY'
import hashlib, platform, sys
text = open(sys.argv[1], "rb").read() + platform.python_version().encode() + platform.machine().encode()
print(hashlib.sha256(text).hexdigest()[:12])
PY
)
venv=${TILECAST_VENV:-$HOME/.cache/tilecast-venv-$key}
stamp=$venv/.tilecast-complete

if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$key" ]; then
    say "reusing $venv"
else
    say "installing into $venv with $("$python" --version)"
    mkdir -p "$(dirname "$venv")"
    "$python" -m venv "$venv" >&2
    # pip warns about the torch dependencies that are left out on purpose; its other messages still show.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-input --no-deps \
        --requirement "$requirements" >&2
    "$venv/bin/python" -c 'import jax, ml_dtypes, numpy, safetensors, torch' >&2
    printf '%s\n' "$key" >"$stamp"
fi
printf '%s\n' "$venv/bin/python"
