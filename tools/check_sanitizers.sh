#!/usr/bin/env bash
# Run the tests under the address and undefined-behaviour sanitizers (Linux, GCC), including slow tests. The
# script leaves out tests/project, tests/properties, the tests of memory faults and busy machines, and the slow tests of
# the command line and of clusters. Each folder runs in its own process, and its time is printed. Arguments go to pytest
# and replace the folders, for example by the tests to run. With --threads: the tests of threads, and many at once,
# under the thread sanitizer. It must know how the interpreter hands memory from thread to thread: $PYTHON is one that
# was itself built for it, and without the GIL.
kind=1
if [ "${1:-}" = --threads ]; then
    kind=thread
    shift
    "${PYTHON:-python}" -c 'import sysconfig; print(sysconfig.get_config_var("CONFIG_ARGS"))' |
        grep -q -- --with-thread-sanitizer ||
        { echo "--threads needs a Python configured --with-thread-sanitizer --disable-gil" >&2; exit 2; }
fi
export FASTENS_SANITIZE=$kind
source "$(dirname "$0")/copy_and_build.sh"
RUNTIME=
library() { "${CC:-gcc}" -print-file-name="$1"; }
failed=0
shard() {
    local start=$SECONDS
    echo "== $*"
    LD_PRELOAD=$RUNTIME "$PYTHON" -m pytest -q -p no:cacheprovider --capture=sys "$@" || failed=1
    echo "== $((SECONDS - start)) s"
}
if [ $kind = thread ]; then
    export TSAN_OPTIONS=exitcode=66 PYTHON_GIL=0
    if [ $# -eq 0 ]; then
        set -- tests/engine/test_threads.py tests/engine/test_sharing.py tests/robustness/test_many_threads.py
        "$PYTHON" "$CHECKOUT/tools/stress_threads.py" --seconds 100 || failed=1
    fi
    shard "$@"
else
    # Python itself is not instrumented, so the runtime must be loaded before it; its own leaks are not ours. C++ too:
    # without it, what a library throws ends the process.
    RUNTIME=$(library libasan.so):$(library libstdc++.so)
    export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc
    if [ $# -gt 0 ]; then
        shard "$@"
    else
        left_out=(--ignore=tests/robustness/test_memory_faults.py --ignore=tests/robustness/test_busy_machine.py)
        for folder in tests/*/; do
            case $folder in
                tests/reference/ | tests/properties/ | tests/project/) ;;
                tests/cli/ | tests/clusters/) shard "$folder" ;;
                *) shard --slow "${left_out[@]}" "$folder" ;;
            esac
        done
    fi
fi
echo "$SECONDS s in all"
exit $failed
