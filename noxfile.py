"""What CI runs on several Pythons and with several versions of the dependencies: `nox --list`.

Checks that need one Python only are steps of `.ci/run`.
"""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["tests-3.13"]
PYTEST = ["python", "-m", "pytest", "-n", "auto", "--dist", "worksteal"]


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """Run all tests except slow tests, which only `.ci/run slow` runs; arguments go to pytest."""
    session.install(".[test]")
    session.run(*PYTEST, *session.posargs)


@nox.session(name="tests-3.14t", python="3.14t")
def free_threaded(session: nox.Session) -> None:
    """Run the tests of the engine and of threads without the GIL, where few dependencies have wheels."""
    session.install(".[arrow]", "pytest>=8", "pytest-xdist>=3.6.1", "hypothesis", "pandas")
    folders = [
        "tests/engine",
        "tests/forests",
        "tests/boosting",
        "tests/robustness/test_many_threads.py",
        "tests/modelfile/test_storage.py",
    ]
    session.run(*PYTEST, *folders, *session.posargs, env={"PYTHON_GIL": "0"})


@nox.session(python="3.11", venv_backend="uv")
def oldest(session: nox.Session) -> None:
    """Run the tests with the oldest dependencies that pyproject.toml allows."""
    session.install("--resolution", "lowest-direct", ".[test]")
    session.run(*PYTEST, *session.posargs)


@nox.session(python="3.13")
def newest(session: nox.Session) -> None:
    """Run the tests with the newest dependencies, pre-releases included."""
    session.install("--pre", ".[test]")
    session.run(*PYTEST, *session.posargs)
