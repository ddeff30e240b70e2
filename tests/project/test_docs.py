"""Pages of docs/ and the README: their examples run as they stand, sentences are short, links lead somewhere."""

from __future__ import annotations

import ast
import doctest
import re
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot

import fastens

mpl.use("Agg")

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GUIDE = sorted(DOCS.glob("*.md"))
PAGES = [ROOT / "README.md", *GUIDE, *sorted(DOCS.glob("measured/*.md"))]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
WITH_EXAMPLES = [page for page in PAGES if EXAMPLE.search(page.read_text(encoding="utf-8"))]
LINK = re.compile(r"\]\((?!http)([^)#\s]*)(?:#([^)\s]*))?\)")
MAX_WORDS = 45
# A number with a point or a unit; and those that are settings, or bounds that other tests hold.
RESULT = re.compile(r"(?<![\w.,])(\d[\d,]*\.\d+(?!\.?\d)|\d[\d,]*(?= ?%|x\b| (?:times|[mun]?s|[KMG]i?B)\b))")
SETTING = re.compile(
    r"rates? (?:of )?0\.1|Python 3\.11|coverage of 0\.9|plus 0\.01|"
    r"more than 64 MiB of codes|1\.7 times what was measured and 160 MiB"
)


def name(page):
    return page.relative_to(ROOT).as_posix()


def absent(code):
    """The packages that an example imports and that are not installed."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {own.name.partition(".")[0] for own in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition(".")[0])
    return {name for name in names if find_spec(name) is None}


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, names, left_out = page.read_text(encoding="utf-8"), {}, set()
    for example in EXAMPLE.finditer(text):
        line = text[: example.start()].count("\n") + 2
        if example[1].startswith(">>>"):
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            runner.run(doctest.DocTestParser().get_doctest(example[1], names, page.name, str(page), line))
            assert runner.summarize(verbose=False).failed == 0
        elif page.stem.startswith(("clusters", "ecosystem", "from-")) and absent(example[1]):
            left_out |= absent(example[1])
        else:
            exec(compile("\n" * (line - 1) + example[1], page.name, "exec"), names)
    pyplot.close("all")
    if left_out:
        pytest.skip(f"the rest ran; not installed: {', '.join(sorted(left_out))}")


def script(stem, folder=DOCS):
    """A script as a module."""
    spec = spec_from_file_location(stem, folder / f"{stem}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def figures():
    return script("figures")


@pytest.mark.slow
@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "cli.md", DOCS / "tutorial.md"], ids=name)
def test_commands_run_and_print_what_pages_say(page):
    pytest.importorskip("rich")
    pytest.importorskip("pyarrow")
    commands, text = script("commands"), page.read_text(encoding="utf-8")
    if page.stem == "cli" and not (commands.DATA / "credit_g.parquet").exists():
        pytest.skip("needs the tables of FASTENS_DATA")
    text = text.replace("--time-limit 10 ", "--time-limit 1 ")  # the page shows only a part of this output
    assert commands.without_times(commands.told_again(text)) == commands.without_times(text)


def test_reference_has_every_public_name():
    page = (DOCS / "reference/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   fastens\.(\w+)$", page, flags=re.MULTILINE)
    assert sorted(listed) == sorted(fastens.__all__)


def without_code(text):
    """Return the prose of a page, without code and without what scripts write between comments."""
    text = re.sub(r"<!-- figures .*?<!-- end of figures -->\n", "", text, flags=re.DOTALL)
    return re.sub(r"^ *(`{3,})[^\n]*\n.*?^ *\1 *$", "", text, flags=re.DOTALL | re.MULTILINE)


def paragraphs(text):
    """Running text: each paragraph and each item of a list, without headings, tables, formulas and code."""
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", without_code(text)):
        lines = [line for line in part.split("\n") if not re.match(r"\s*\||#|:::|    \S+\(|<", line)]
        if lines:
            yield " ".join(lines)


def sentences(paragraph):
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
    words = re.sub(r"`[^`]*`", "code", words).replace("**", "")
    return re.split(r"(?<=[.!?])[\"')]*\s+(?=[\"(]?(?:[A-Z]|code))", re.sub(r"^\s*(?:[-*]|\d+\.) ", "", words))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_sentences_are_short(page):
    found = [each for part in paragraphs(page.read_text(encoding="utf-8")) for each in sentences(part)]
    assert [each for each in found if len(each.split()) > MAX_WORDS] == []


@pytest.mark.parametrize(("kind", "most"), [("docs", 2), ("docstrings", 40), ("comments", 6)])
def test_flagged_phrases_stay_rare(kind, most):
    found = script("flagged_phrases", ROOT / "tools").flagged(ROOT, kind)
    assert len(found) <= most, found


def anchors(page):
    """The headings of a page as MyST and GitHub name them in addresses."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), flags=re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", each).lower()) for each in headings]
    return {each.strip().replace(" ", "-") for each in plain}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=name)
def test_links_lead_somewhere(page):
    for target, anchor in LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if target.startswith("gallery/"):
            continue  # made when the site is built, which checks them
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


IN_TWO_CLICKS = {
    "tuning": "tuning.md",
    "imbalance": "imbalance.md",
    "early stopping": "early-stopping.md",
    "categories": "categories.md",
    "saving": "saving.md",
    "serving": "saving.md",
    "clusters": "clusters.md",
    "larger than memory": "large-tables.md",
    "ONNX": "exporting.md",
    "SHAP": "explaining.md",
    "importances": "explaining.md",
    "monotone constraints": "constraints.md",
    "calibration": "calibration.md",
    "quantiles": "intervals.md",
    "splits by time": "splits.md",
}


def test_front_page_leads_to_every_task():
    links = dict(re.findall(r"\[([^\]]*)\]\(([^)]*)\)", (DOCS / "index.md").read_text(encoding="utf-8")))
    for task, page in IN_TWO_CLICKS.items():
        assert any(task in text and target == page for text, target in links.items()), task


def test_every_page_is_in_one_toctree():
    texts = [(DOCS / page).read_text(encoding="utf-8") for page in ("index.md", "guide.md")]
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", "".join(texts), flags=re.DOTALL | re.MULTILINE)
    listed = [page for tree in trees for page in re.findall(r"^([\w-]+)$", tree, flags=re.MULTILINE)]
    assert sorted(listed) == sorted({page.stem for page in GUIDE} - {"index"})


def test_readme_has_the_figures_of_their_file(figures):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert figures.with_table(text) == text


@pytest.mark.parametrize("page", PAGES[1:], ids=name)
def test_pages_have_the_figures_of_their_files(figures, page):
    text = page.read_text(encoding="utf-8")
    assert figures.filled_in(text) == text, "run python docs/figures.py"


def test_readme_has_the_losses_of_their_file(figures):
    head, _, medians = figures.records()["quality_100"]["tables"][0]["rows"][:3]
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    for peer in ("LightGBM", "XGBoost", "CatBoost", "bonsai-gbt"):
        assert f"{float(medians[head.index(f'loss over {peer}')]):.2f} of {peer}'s" in text


def numbers_of(record):
    """All numbers of a file of figures, in cells and in the command, as they stand and with two digits."""
    cells = [cell for each in record["tables"] for row in each["rows"] for cell in row]
    found = set(re.findall(r"\d[\d,]*(?:\.\d+)?", " ".join([*cells, record["command"]])))
    return found | {f"{float(number.replace(',', '')):.2f}" for number in found}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_prose_agrees_with_the_figures(figures, page):
    """Where a page shows figures, a result that its sentences repeat is one of a table's cells."""
    text = page.read_text(encoding="utf-8")
    of_readme = [figures.IN_README[0], "quality_100", "quality_fresh"]
    names = of_readme if page.stem == "README" else [each for each, _ in figures.PLACE.findall(text) if each != "all"]
    known = set().union(*(numbers_of(figures.records()[name]) for name in names))
    prose = text if page.stem != "README" else text.replace(figures.readme_table(), "")
    told = [re.sub(r"`[^`]*`", "code", SETTING.sub("", " ".join(part.split()))) for part in paragraphs(prose)]
    found = {number for part in told if names for number in RESULT.findall(part)}
    assert sorted(found - known) == []


def test_every_file_of_figures_was_recorded(figures):
    assert [name for name, record in figures.records().items() if record["seconds"] is None] == []


def test_every_file_of_figures_is_on_a_page(figures):
    assert set(figures.pages()) == {"all", *figures.records()}


def test_figures_come_with_their_command(figures):
    for name, record in figures.records().items():
        # A record may outlive its script, which then is in the commit that it names.
        assert (ROOT / record["command"].split()[1]).is_file() is ("removed" not in record), name
        assert all(record[key] for key in ("date", "commit", "machine")), name
        assert all(len(row) == len(each["rows"][0]) for each in record["tables"] for row in each["rows"]), name


@pytest.mark.parametrize("page", PAGES[1:], ids=name)
def test_no_figure_in_a_table_is_typed_by_hand(page):
    """Tables of the pages are words; a cell that is a number with a point, or with a unit, comes from docs/figures."""
    text = without_code(page.read_text(encoding="utf-8"))
    cells = [cell.strip() for line in text.splitlines() if line.startswith("|") for cell in line.strip("|").split("|")]
    assert [cell for cell in cells if re.fullmatch(r"\**[\d,]+(\.\d+|\.?\d* ([mun]?s|[MG]i?B|%|x))\**", cell)] == []
