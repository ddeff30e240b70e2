#!/usr/bin/env bash
# Run the kernels' tests on a build that checks the bounds of every view. Arguments go to pytest.
export FASTENS_DEBUG=1
source "$(dirname "$0")/copy_and_build.sh"
"$PYTHON" -m pytest tests/engine/kernels "$@"
