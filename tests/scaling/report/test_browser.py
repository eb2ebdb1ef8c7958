"""The page as a browser shows it: all marks in their place, and no complaint."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--dump-dom",
)
POLICY = re.compile(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>")
PROBE = """
<script>
const box = element => element.getBoundingClientRect();
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1
  && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
const overlap = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
  && a.top < b.bottom - 1 && b.top < a.bottom - 1;
const within = element => inside(box(element), box(element.closest(".chart svg")));
const all = (where, what) => [...where.querySelectorAll(what)];
const charts = all(document, ".chart svg");
const POINT = "path[aria-roledescription=point]";
const marks = charts.flatMap(chart => all(chart, POINT));
const words = charts.map(chart => all(chart, "text"));
const pairs = list => list.flatMap((a, i) => list.slice(i + 1).map(b => [a, b]));
const seen = {
  width: window.innerWidth,
  needed: document.documentElement.scrollWidth,
  charts: charts.length,
  marks: marks.length,
  words: words.flat().length,
  unseen: marks.filter(mark => box(mark).width < 2 || !within(mark)).length,
  cut: words.flat().filter(word => !within(word)).map(word => word.textContent),
  colliding: words.flatMap(pairs).filter(([a, b]) => overlap(box(a), box(b)))
    .map(([a, b]) => a.textContent + " | " + b.textContent),
  covered: words.flatMap((list, i) => list.flatMap(word => all(charts[i], POINT)
    .filter(mark => overlap(box(word), box(mark)))
    .map(mark => word.textContent + " | " + mark.ariaLabel))),
  scrolled: all(document, ".scroll").filter(e => e.scrollWidth > e.clientWidth + 1)
    .filter(e => !e.closest("details:not([open])")).map(e => e.ariaLabel),
  scales: all(document, ".panels").map(panels => all(panels, ".chart svg")
    .map(chart => box(chart).width / chart.viewBox.baseVal.width)),
};
const text = JSON.stringify(seen).replaceAll("<", "(");
document.documentElement.innerHTML = "<pre>" + text + "</pre>";
</script>
"""

pytestmark = pytest.mark.skipif(
    BROWSER is None,
    reason=f"opening the page takes a browser; none of {', '.join(BROWSERS)} on PATH",
)


def opened(page: Path, *, width: int) -> tuple[str, list[str]]:
    """Returns the document as the browser has it, and its console's lines."""
    with tempfile.TemporaryDirectory() as profile:
        done = subprocess.run(
            [
                str(BROWSER),
                *FLAGS,
                f"--window-size={width},2000",
                f"--user-data-dir={profile}",
                page.as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=180,
            check=True,
        )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def seen_at(page: str, folder: Path, *, width: int) -> dict:
    """Returns what the probe measures in the page shown `width` pixels wide.

    The page's own policy lets no script run, so the probe goes into a copy without it;
    a frame holds the copy because a window cannot be made narrower than 500 pixels.
    """
    copy = POLICY.sub("", page).replace("</body>", f"{PROBE}</body>")
    frame = folder / "frame.html"
    frame.write_text(
        f'<iframe style="border: 0; width: {width}px; height: 2000px" '
        'onload="document.body.innerHTML = this.contentDocument.body.innerHTML" '
        f'srcdoc="{html.escape(copy)}"></iframe>',
        encoding="utf-8",
    )
    document, _ = opened(frame, width=1280)
    found = re.search(r"<pre>(.*)</pre>", document)
    assert found is not None, document[-2000:]
    return json.loads(html.unescape(found[1]))


@pytest.mark.parametrize("width", [400, 1280])
def test_every_mark_is_seen_and_no_words_collide(page, tmp_path, width):
    seen = seen_at(page, tmp_path, width=width)
    assert seen["width"] == width
    assert seen["charts"] == 18
    assert seen["marks"] == page.count('aria-roledescription="point"') > 100
    assert seen["unseen"] == 0
    assert seen["words"] > 300
    assert seen["cut"] == []
    assert seen["colliding"] == []
    assert seen["covered"] == []
    for scales in seen["scales"]:
        assert max(scales) < 1.03 * min(scales), "axes do not line up"
    assert seen["needed"] <= width
    # Where there is room, no column of a table that is open is out of sight.
    assert seen["scrolled"] == [] or width < 1280


def test_words_that_collide_would_be_seen(page, tmp_path):
    huge = page.replace('font-size="11px"', 'font-size="40px"')
    seen = seen_at(huge, tmp_path, width=1280)
    assert seen["colliding"]
    assert seen["covered"]
    assert seen["cut"]


def test_the_page_opens_without_a_word_on_the_console(written):
    document, console = opened(Path(written.page), width=1280)
    assert "Where scaling stops paying" in document
    assert console == []


def test_a_fault_would_be_seen_on_the_console(tmp_path, page):
    broken = tmp_path / "broken.html"
    image = '<img src="https://example.invalid/x.png"></body>'
    broken.write_text(page.replace("</body>", image), encoding="utf-8")
    _, console = opened(broken, width=1280)
    assert any("Content Security Policy" in line for line in console)
