#!/usr/bin/env bash
# Run the kernels' tests on a build that checks the bounds of every view. Arguments go to pytest.
# In a function that cannot raise, Python reports the failed check as unraisable: here that fails the test.
export FASTENS_DEBUG=1
source "$(dirname "$0")/copy_and_build.sh"
"$PYTHON" -m pytest --slow -W error::pytest.PytestUnraisableExceptionWarning tests/engine tests/bayes/counts tests/bayes/concepts tests/table/columns "$@"
