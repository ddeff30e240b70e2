"""The pages in a real browser: nothing is wider than a phone or a desk, and each shows its own drawings."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"none of these browsers is there: {', '.join(BROWSERS)}")
LONG = "a_very_long_name_of_a_column_that_nobody_would_want_to_type_twice"
# What reaches beyond the page, but for what scrolls by itself.
MEASURE = """<script>
const wide = [...document.querySelectorAll("body *")].filter(
  e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".wide")).map(e => e.outerHTML.slice(0, 90));
const seen = name => [...document.querySelectorAll(name)].some(e => e.offsetWidth > 0);
const found = {inner: innerWidth, page: document.scrollingElement.scrollWidth, wide: wide,
  phone: seen(".on-phone"), desk: seen(".on-desk")};
parent.document.documentElement.setAttribute("data-found", JSON.stringify(found));
</script></body>"""


def measured(path, width):
    """The width of a page in a window, and what reaches beyond it."""
    page = html.escape(path.read_text(encoding="utf-8").replace("</body>", MEASURE))
    # Windows have a least width, frames have none.
    frame = f'<iframe style="width: {width}px; height: 1000px; border: 0" srcdoc="{page}"></iframe>'
    outer = path.with_name(f"measured-{width}.html")
    outer.write_text(f'<!doctype html><meta charset="utf-8">{frame}', encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command = [BROWSER, *options, f"--user-data-dir={path.parent}/user", "--dump-dom", outer.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120, check=False)
    found = re.search(r'data-found="(.*?)"', done.stdout)
    if found is None:
        pytest.skip(f"{BROWSER} does not show pages here: {done.stderr[-200:]}")
    return json.loads(html.unescape(found[1]))


@pytest.fixture
def table(houses, write_csv):
    """Houses with a column of a long name and long values, and a target of many classes with long names."""
    rng = np.random.default_rng(0)
    streets = pa.array([f"{'long ' * 12}street number {n}" for n in rng.integers(0, 6, len(houses))])
    kinds = pa.array([f"{'very' * 8}_kind_{n}" for n in rng.integers(0, 9, len(houses))])
    return write_csv(houses.append_column(LONG, streets).append_column("kind", kinds))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["price", "sold", "kind", None])
def test_nothing_is_wider_than_the_page(run, table, tmp_path, target):
    if target is None:
        done = [run("inspect", table, "--target", "sold", "-o", "page.html")]
    else:
        done = [run("train", table, "--target", target, "--n-estimators", 8, "--max-leaf-nodes", 6, "--early-stopping")]
        done += [run("explain", "model.fastens", table, "-o", "page.html")]
    assert [outcome.code for outcome in done] == [0] * len(done)
    for width in (390, 1280):
        found = measured(tmp_path / "page.html", width)
        assert found["inner"] == width
        assert found["wide"] == []
        assert found["page"] <= width
        if target is not None:
            assert (found["phone"], found["desk"]) == (width == 390, width == 1280)
