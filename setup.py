"""Build the kernels. Everything else about the package is in pyproject.toml.

Switches, all off by default (set the environment variable to 1, or as told):

FASTENS_DEBUG       check bounds, wrap-around and uninitialised views; light optimisation, debug symbols
FASTENS_SANITIZE    build with the address and undefined-behaviour sanitizers, or, if "thread", with that of threads
                    (GCC, Clang)
FASTENS_COVERAGE    count how often each line runs, for gcov (GCC); tools/coverage.sh
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

PACKAGE = Path("fastens")
MEMORYVIEWS = "fastens._cyutility"


def switched_on(name: str) -> bool:
    return os.environ.get(f"FASTENS_{name}", "0") not in {"", "0"}


DEBUG = switched_on("DEBUG")
SANITIZERS = {"1": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"], "thread": ["-fsanitize=thread"]}
SANITIZE = SANITIZERS[os.environ["FASTENS_SANITIZE"]] if switched_on("SANITIZE") else []
COVERAGE = switched_on("COVERAGE")


def compile_flags(compiler_type: str) -> list[str]:
    """Flags for the same rounding on every machine: no contraction to FMA, no reordered sums."""
    if compiler_type == "msvc":
        return ["/Od" if DEBUG else "/O2", "/std:c11"]
    # OpenMP's marks of loops that become vectors, without its threads or its library: 255 leaves are explained in 0.7
    # of the time.
    flags = ["-std=c11", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off"]
    flags += ["-O1", "-g"] if DEBUG or SANITIZE else ["-O1", "-g0"] if COVERAGE else ["-O3", "-g0"]
    flags += ["-fno-omit-frame-pointer"] if SANITIZE else []
    return flags + link_flags() + (["-fprofile-update=atomic"] if COVERAGE else [])


def link_flags() -> list[str]:
    return SANITIZE + (["--coverage"] if COVERAGE else [])


def directives() -> dict[str, object]:
    return {
        "language_level": 3,
        "boundscheck": DEBUG,
        "wraparound": False,
        "initializedcheck": DEBUG,
        "nonecheck": DEBUG,
        "cdivision": True,
        "freethreading_compatible": True,
    }


def header_folders(path: Path) -> set[Path]:
    """Where the headers of a kernel are: beside it, in the room above, or at the engine's root."""
    return {path.parent, path.parent.parent, PACKAGE / "engine"}


def extensions() -> list[Extension]:
    """Every .pyx file of the package, its C headers, and the memoryview code that they share."""
    kernels = [
        Extension(
            ".".join(path.with_suffix("").parts),
            [path.as_posix()],
            include_dirs=[PACKAGE.as_posix()],
            depends=[header.as_posix() for folder in header_folders(path) for header in folder.glob("*.h")],
        )
        for path in sorted(PACKAGE.rglob("*.pyx"))
    ]
    return [*kernels, Extension(MEMORYVIEWS, [])]


def digest_of_sources() -> str:
    """What the kernels are built from. Times do not tell: each build of pip has a Cython just installed."""
    digest = hashlib.sha256()
    for path in sorted(path for ending in ("pyx", "pxd", "h") for path in PACKAGE.rglob(f"*.{ending}")):
        digest.update(f"{path.as_posix()} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()


class BuildKernels(build_ext):
    """Translate with Cython, then compile with the flags of the compiler at hand, both in parallel; once."""

    def build_extensions(self) -> None:
        if sys.byteorder != "little":
            raise PlatformError("fastens needs a little-endian processor, such as x86-64 or ARM; this one is not")
        # Imported here, where it is needed, so that making a source distribution does not need it.
        from Cython import __version__ as cython_version
        from Cython.Build import cythonize

        flags = compile_flags(self.compiler.compiler_type)
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        made_with = repr([suffix, cython_version, directives(), flags, self.compiler_command()])
        stamp, built_from = Path(self.build_temp, "built_from"), digest_of_sources()
        last_with, _, last_from = stamp.read_text().partition("\n") if stamp.is_file() else (made_with, "", "")
        self.force = self.force or last_with != made_with
        if not self.force and last_from == built_from and self.is_built():
            return
        stamp.unlink(missing_ok=True)
        n_jobs = self.parallel if isinstance(self.parallel, int) else os.cpu_count() or 1
        translated = cythonize(
            extensions(),
            compiler_directives=directives(),
            shared_utility_qualified_name=MEMORYVIEWS,
            nthreads=n_jobs if os.name == "posix" else 0,
            force=bool(self.force) or DEBUG or COVERAGE,
        )
        sources = {extension.name: extension.sources for extension in translated}
        for extension in self.extensions:
            extension.sources = sources[extension.name]
            extension.extra_compile_args = flags
            extension.extra_link_args = link_flags()
        self.parallel = n_jobs
        super().build_extensions()
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.write_text(f"{made_with}\n{built_from}")

    def compiler_command(self) -> list[str]:
        return list(getattr(self.compiler, "compiler_so", [])) + list(getattr(self.compiler, "linker_so", []))

    def is_built(self) -> bool:
        return all(Path(self.get_ext_fullpath(extension.name)).is_file() for extension in self.extensions)


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
