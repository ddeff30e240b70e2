"""Build the compiled kernels; everything else about the package is in pyproject.toml."""

from __future__ import annotations

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "nonecheck": False,
    "cdivision": True,
    "freethreading_compatible": True,
}
FLAGS = ["-O3", "-std=c11", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fopenmp"]

setup(
    ext_modules=cythonize(
        [
            Extension(
                ".".join(path.with_suffix("").parts),
                [str(path)],
                include_dirs=["fastens/engine/kernels"],
                extra_compile_args=FLAGS,
                extra_link_args=["-fopenmp"],
            )
            for path in sorted(Path("fastens").rglob("*.pyx"))
        ],
        compiler_directives=DIRECTIVES,
    )
)
