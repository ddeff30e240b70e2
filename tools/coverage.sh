#!/usr/bin/env bash
# Which lines of the package the tests reach: of Python by coverage.py, of the kernels by gcov (GCC). Prints per cent by
# file and in total, and fails under 95. Arguments go to pytest: more of "-n 2", or some of the tests.
export FASTENS_COVERAGE=1
source "$(dirname "$0")/copy_and_build.sh"
# Workers count what they ran when they end; on a busy machine they would be stopped before they have.
cat > patient_workers.py <<'END'
from xdist.workermanage import NodeManager

NodeManager.EXIT_TIMEOUT = 600
END
# The two ignored read the checkout, not the package.
"$PYTHON" -m pytest -q -p patient_workers --slow --cov --cov-report= --ignore=tests/project/test_docs.py \
    --ignore=tests/project/test_architecture.py "$@" ||
    echo "some tests failed"
"$PYTHON" "$CHECKOUT/tools/coverage_table.py"
