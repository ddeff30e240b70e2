#!/usr/bin/env bash
# Models and predictions on other processors, under emulation: bits.txt of tests/reference must hold on 64-bit ARM, built
# by a cross compiler, and on x86-64 without AVX-512 (Haswell) and without AVX (Nehalem). Then the kernels' tests on ARM,
# or those that the arguments name to pytest. Debian with qemu-user and gcc-aarch64-linux-gnu; $PYTHON must have the
# version that this Debian has. FASTENS_ARM keeps what is downloaded (default: build/arm, about 500 MB).
set -euo pipefail
root_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ARM=${FASTENS_ARM:-$root_folder/build/arm}
PYTHON=${PYTHON:-python}
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ROOT=$ARM/root SITE=$ARM/site
mkdir -p "$ARM"

say() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }

# Unpack Debian's packages of the other processor into a folder; nothing is installed on this machine.
get_python() {
    local apt=(-o "APT::Architecture=arm64" -o "APT::Architectures=arm64" -o "Dir::State=$ARM/apt"
        -o "Dir::State::Status=$ARM/apt/status" -o "Dir::Cache=$ARM/apt/cache" -o "APT::Sandbox::User=root")
    mkdir -p "$ARM/apt/lists/partial" "$ARM/apt/cache/archives/partial" "$ARM/deb" "$ROOT"
    : >"$ARM/apt/status"
    apt-get "${apt[@]}" -qq update
    (cd "$ARM/deb" && apt-get "${apt[@]}" -qq download libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libssl3 libffi8 \
        libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libncursesw6 libtinfo6 libreadline8 libcrypt1 \
        "python$version" "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" \
        "libpython$version-dev")
    for package in "$ARM"/deb/*.deb; do dpkg-deb -x "$package" "$ROOT"; done
}

# The same releases that are tested here.
get_packages() {
    local wanted
    wanted=$("$PYTHON" -m pip freeze --all | grep -iE '^(numpy|scipy|scikit-learn|joblib|threadpoolctl|narwhals|pytest|hypothesis|pandas)==')
    # shellcheck disable=SC2086
    "$PYTHON" -m pip install --quiet --target "$SITE" --platform manylinux2014_aarch64 \
        --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 --python-version "$version" \
        --only-binary=:all: $wanted
}

[ -x "$ROOT/usr/bin/python$version" ] || { say "Python for ARM"; get_python; }
[ -d "$SITE/sklearn" ] || { say "packages for ARM"; get_packages; }

# setup.py asks sysconfig for compiler, flags and names: that of the other Python.
say "the kernels, by a cross compiler"
mkdir -p "$ARM/cross"
cp "$ROOT/usr/lib/python$version/_sysconfigdata__aarch64-linux-gnu.py" "$ARM/cross"
export PYTHONPATH=$ARM/cross _PYTHON_SYSCONFIGDATA_NAME=_sysconfigdata__aarch64-linux-gnu
export _PYTHON_HOST_PLATFORM=linux-aarch64 CC=${ARM_CC:-aarch64-linux-gnu-gcc}
export LDSHARED="$CC -shared" CPPFLAGS="-I$ROOT/usr/include/python$version -I$ROOT/usr/include"
source "$root_folder/tools/copy_and_build.sh"
unset _PYTHON_SYSCONFIGDATA_NAME _PYTHON_HOST_PLATFORM CC LDSHARED CPPFLAGS

on_arm() { PYTHONPATH=$COPY:$SITE qemu-aarch64 -L "$ROOT" "$ROOT/usr/bin/python$version" "$@"; }

failed=0
compare() {
    if diff "$COPY/tests/reference/bits.txt" -; then echo "the same bits"; else failed=1; fi
}

say "models and predictions on ARM"
on_arm tests/reference/bits.py | compare
for processor in Haswell Nehalem; do
    say "models and predictions on x86-64, $processor"
    # The checkout's own build. qemu 7 stumbles over vectors of OpenBLAS and of NumPy's sorts, so these do without.
    (cd "$root_folder" && PYTHONPATH=$root_folder OPENBLAS_CORETYPE=Nehalem NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4" \
        qemu-x86_64 -cpu "$processor" "$(command -v "$PYTHON")" tests/reference/bits.py \
        2> >(grep -v "TCG doesn't support" >&2)) | compare
done
say "the kernels' tests on ARM"
if [ $# -eq 0 ]; then set -- tests/engine tests/bayes/counts tests/posterior; fi
on_arm -m pytest -q -p no:cacheprovider "$@" || failed=1
say "done"
exit $failed
