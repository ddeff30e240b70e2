#!/usr/bin/env bash
# Would the kernels compile on Windows and macOS? Clang reads them with the headers of these systems, all of which the
# package ziglang of PyPI has; of Debian's source of Python is the pyconfig.h of Windows. "msvc" is read as Microsoft's
# compiler would: its macros, no names of GNU's or Clang's, no extensions. Nothing is linked, and nothing is run.
# FASTENS_COMPILE keeps what is downloaded (default: build/compile, about 500 MB).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${PYTHON:-python}
KEPT=${FASTENS_COMPILE:-$PWD/build/compile}
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
include=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_path("include"))')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$KEPT"

get_config() {
    local apt=(-o "Dir::State=$work/apt" -o "Dir::State::Lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache"
        -o "Dir::Etc::SourceParts=/dev/null" -o "Dir::Etc::SourceList=$work/sources.list" -o "APT::Sandbox::User=root")
    (. /etc/os-release && echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
        "http://deb.debian.org/debian $VERSION_CODENAME main" >"$work/sources.list")
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
    apt-get "${apt[@]}" -qq update
    (cd "$work" && apt-get "${apt[@]}" -qq source --download-only "python$version")
    # Python.h reads the one that lies beside it.
    cp -r "$include" "$KEPT/windows"
    tar -xO -f "$work/python$version"_*.orig.tar.*z --wildcards '*/PC/pyconfig.h*' >"$KEPT/windows/pyconfig.h"
}

[ -d "$KEPT/ziglang" ] || "$PYTHON" -m pip install --quiet --no-deps --target "$KEPT" ziglang
[ -d "$KEPT/windows" ] || get_config

"$PYTHON" - "$work" <<'CODE'
import os, sys
sys.path.insert(0, "")
from Cython.Build import cythonize
from setup import MEMORYVIEWS, directives, extensions
options = {"compiler_directives": directives(), "shared_utility_qualified_name": MEMORYVIEWS, "quiet": True}
cythonize(extensions(), build_dir=sys.argv[1], force=True, nthreads=os.cpu_count(), **options)
CODE

failed=0
check() { # NAME, WHAT IS AN ERROR, FOLDERS OF HEADERS, FLAGS
    local zig=$KEPT/ziglang name=$1 error=$2 system=$3 python_headers=$4 start=$SECONDS
    shift 4
    # What is said of a file goes into one of its own: several are compiled at a time.
    find "$work/fastens" -name '*.c' -print0 | xargs -0 -P "$(nproc)" -n 1 bash -c '"$@" >"${!#}.said" 2>&1 || true' _ \
        "$zig/zig" clang -Wno-everything "$@" -std=c11 -nostdinc -isystem "$zig/lib/include" \
        -isystem "$zig/lib/libc/include/$system" -isystem "$python_headers" -Ifastens -fsyntax-only -ferror-limit=0
    if grep -rhE --include='*.said' "$error" "$work/fastens"; then failed=1; fi
    echo "$name: $((SECONDS - start)) s"
}
any="error:"
# The headers are MinGW's, in which Microsoft's compiler would find errors.
own="^($work/)?fastens/[^ ]+ error:|fatal error:"
check mingw "$any" any-windows-any "$KEPT/windows" --target=x86_64-w64-windows-gnu -DMS_WIN64
check msvc "$own" any-windows-any "$KEPT/windows" --target=x86_64-pc-windows-msvc -fms-compatibility-version=19.40 \
    -U__clang__ -Werror=gnu -Werror=vla -Werror=pointer-arith -Wno-gnu-line-marker
# What this system's pyconfig.h would say wrongly of macOS, Python's pymacconfig.h puts right.
check macos-arm64 "$any" any-darwin-any "$include" --target=arm64-apple-macos11
check macos-x86_64 "$any" any-darwin-any "$include" --target=x86_64-apple-macos11
exit $failed
