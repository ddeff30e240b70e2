#!/usr/bin/env bash
# Run the kernels' tests under the address and undefined-behaviour sanitizers (Linux, GCC). Arguments go to pytest.
export FASTENS_SANITIZE=1
source "$(dirname "$0")/copy_and_build.sh"
# Python itself is not instrumented, so the runtime must be loaded before it; its own leaks are not ours.
export LD_PRELOAD=$("${CC:-gcc}" -print-file-name=libasan.so)
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc
"$PYTHON" -m pytest --capture=sys tests/engine tests/bayes/counts tests/bayes/concepts tests/table/columns "$@"
