"""Outputs of the command line: whole or not at all, never over an input or a file of another kind by mistake."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

import fastens
from fastens.cli.table.columns import CommandError
from fastens.cli.table.tables import check_output, write_tables, writing
from reference.children import run_child

# Writes a large table over "out.csv" until it is killed, eight times: each time the file is the old one or a whole one.
WRITER = """
import os, signal, time
import pyarrow as pa
from fastens.cli.table.tables import write_tables
table, old = pa.table({"a": list(range(100_000))}), open("out.csv").read()
whole = "".join(f"{line}\\n" for line in ['"a"', *range(100_000)])
for attempt in range(8):
    writer = os.fork()
    while writer == 0:
        write_tables([table], "out.csv")
    time.sleep(0.02 + 0.003 * attempt)
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    print([old, whole].index(open("out.csv").read()))
"""
# A process that may not write more than 100 kB into a file, as on a full disk.
FULL = """
import resource, signal, sys
import pyarrow as pa
from fastens.cli.table.columns import CommandError
from fastens.cli.table.tables import write_tables
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_tables([pa.table({"a": [str(i) for i in range(100_000)]})], sys.argv[1])
except CommandError as error:
    print(error)
"""


def test_files_that_cannot_be_written(tmp_path):
    check_output(str(tmp_path / "new"), None, [], False)
    for path, message in [(tmp_path, "it is a folder"), (tmp_path / "no" / "file", "the folder")]:
        with pytest.raises(CommandError, match=message):
            check_output(str(path), None, [], False)


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("model", b"a,b\n1,2\n", "a model", "will not overwrite .*, which holds a table of text, with a model"),
        ("t.csv", b"\x93FASTENS...", None, "which holds a model"),
        ("t.csv", b"PAR1....", None, "which holds a Parquet table"),
        ("t.parquet", b"a,b\n1,2\n", None, "will not overwrite .*, which holds a table of text, with a Parquet table"),
        ("t.csv", b"\x00\x01\x02", None, "which holds binary data"),
        ("page.html", b"a,b\n1,2\n", None, "with a web page. Choose another file"),
    ],
)
def test_files_of_other_kinds_stay(tmp_path, name, content, kind, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CommandError, match=message):
        check_output(str(path), kind, [], False)
    check_output(str(path), kind, [], True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b""),
        ("t.csv", b"a\n1\n"),
        ("t.csv", "größe\n1\n".encode("utf-16")),
        ("p.html", b"\n<!DOCTYPE html>"),
        ("p.svg", b'<?xml version="1.0"?><svg/>'),
        ("model.pmml", b'<?xml version="1.0"?><PMML/>'),
    ],
)
def test_files_of_the_same_kind_are_replaced(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    check_output(str(tmp_path / name), None, [], False)


@pytest.mark.slow
def test_commands_do_not_write_over_what_they_read(run, houses, write_csv):
    path = write_csv(houses, "houses.csv")
    before = path.read_bytes()
    assert run("train", path, "--target", "sold", "--n-estimators", 5).code == 0
    for command in [
        ("train", path, "--target", "sold", "-o", path),
        ("predict", "model.fastens", path, "-o", path),
        ("compare", path, "--target", "sold", "-o", f"./{path.name}"),
        ("explain", "model.fastens", path, "--contributions", path),
    ]:
        result = run(*command)
        assert result.code == 2, command
        assert "is an input. Choose another file, or add --overwrite" in result.err
        assert path.read_bytes() == before
    assert run("predict", "model.fastens", path, "-o", path, "--overwrite").code == 0
    assert fastens.read_table(path).column_names[0] == "prediction"


def test_an_error_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old\n1\n")

    def batches():
        yield pa.table({"a": [1, 2]})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_tables(batches(), str(path))
    assert path.read_text() == "old\n1\n"
    assert os.listdir(tmp_path) == ["out.csv"]


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "out.csv", tmp_path / "link.csv"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with writing(str(link)) as unfinished:
        Path(unfinished).write_text("new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a limit on the size of files is POSIX")
@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.csv.gz"])
def test_a_full_disk_leaves_the_old_file(tmp_path, name):
    path = tmp_path / name
    path.write_text("old")
    assert f"cannot write {path}" in run_child(FULL, path, folder=tmp_path).stdout
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    (tmp_path / "out.csv").write_text("a\n0\n")
    assert len(run_child(WRITER, folder=tmp_path).stdout.split()) == 8
