# Sourced by the other scripts here: build the kernels in a copy of the checkout, so that the checkout's own build stays.
# Needs the packages of the extras "test" and "dev" in the environment of $PYTHON (default: python).
set -euo pipefail
PYTHON=${PYTHON:-python}
CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
COPY=$(mktemp -d)
trap 'rm -rf "$COPY"' EXIT

git -C "$CHECKOUT" ls-files -z --cached --others --exclude-standard -- fastens tests contrib setup.py pyproject.toml README.md LICENSE |
    (cd "$CHECKOUT" && xargs -0 sh -c 'for f; do [ -f "$f" ] && printf "%s\0" "$f"; done' sh) |
    tar -C "$CHECKOUT" --null -T - -cf - | tar -C "$COPY" -xf -

cd "$COPY"
build_log=$("$PYTHON" setup.py build_ext --inplace 2>&1) || { printf '%s\n' "$build_log"; exit 1; }
export PYTHONPATH=$COPY
