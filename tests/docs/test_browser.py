"""The site in a real browser: no error in its console, search, both themes, small screens."""

import functools
import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.browser import Browser, programs, started
from trainyard.home import HOME
from trainyard.rules.index import all_rules

pytestmark = pytest.mark.browser

PAGES = ("index", "tutorial", "adopt", "adopt-eks", "job", "troubleshoot", "compare", "forecast", "matrix", "fabrics")
SMALL = {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True}
CONTRAST = """
const light = (colour) => {
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((each) => {
    const part = each / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  for (let each = element; each; each = each.parentElement) {
    const colour = getComputedStyle(each).backgroundColor;
    if (!/, 0\\)$/.test(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
};
const faint = [];
for (const element of document.querySelectorAll("div[role=main] :is(p, li, td, th, h1, h2, h3, a, code)")) {
  if (!element.textContent.trim() || !element.getClientRects().length) continue;
  if (element.classList.contains("headerlink")) continue;
  const [a, b] = [light(getComputedStyle(element).color), light(ground(element))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) faint.push(`${element.tagName} ${ratio.toFixed(1)}: ${element.textContent.slice(0, 40)}`);
}
return [...new Set(faint)].slice(0, 5);
"""
"""What is hard to read: text whose contrast with its ground is below 4.5 to 1 (WCAG 2.2, AA)."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address at which the site is served."""
    made = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(made)]
    subprocess.run(command, cwd=HOME, check=True, timeout=120)
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(quiet, directory=str(made))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    found = programs()
    if found is None:
        pytest.skip("needs chromium and chromedriver")
    with started(*found, tmp_path / "profile") as window:
        yield window


def test_no_page_logs_an_error(browser: Browser, site: str) -> None:
    for page in (*PAGES, "rules/index", "rules/BAT001"):
        browser.open(f"{site}/{page}.html")
        assert browser.run("return document.querySelector('h1').textContent"), page
        assert browser.console() == [], page


def test_the_search_finds_a_rule(browser: Browser, site: str) -> None:
    browser.open(f"{site}/index.html")
    browser.run("new bootstrap.Modal(document.querySelector('#mkdocs_search_modal')).show()")
    browser.until("return getComputedStyle(document.querySelector('#mkdocs_search_modal')).opacity === '1'")
    browser.write("#mkdocs-search-query", "BAT002")

    # A key that is pressed before the index is there is not heard.
    found = browser.until(
        "document.querySelector('#mkdocs-search-query').dispatchEvent(new Event('keyup'));"
        "return (([first]) => first && first.getAttribute('href'))"
        "([...document.querySelectorAll('#mkdocs-search-results a')].filter((each) => each.href.includes('BAT002')))"
    )

    browser.open(f"{site}/{found.lstrip('./')}")
    assert browser.run("return document.querySelector('h1').textContent").startswith("BAT002")
    assert browser.console() == []


def shown(browser: Browser) -> list[str]:
    """The ids of the rules that the list shows."""
    found: list[str] = browser.run(
        "return [...document.querySelectorAll('div[role=main] tbody tr')]"
        ".filter((each) => each.getClientRects().length).map((each) => each.cells[0].textContent)"
    )
    return found


def test_the_list_of_rules_is_filtered(browser: Browser, site: str) -> None:
    browser.open(f"{site}/rules/index.html")
    assert len(shown(browser)) == len(all_rules())

    browser.write("#rules-text", "headless service")
    assert "RDV004" in shown(browser)
    assert len(shown(browser)) < 20
    said = browser.run("return document.querySelector('#rules-count').textContent")
    assert said == f"{len(shown(browser))} of {len(all_rules())} rules"

    choose = "arguments[0].value = 'info'; arguments[0].dispatchEvent(new Event('input'))"
    browser.run(choose.replace("arguments[0]", "document.querySelector('#rules-severity')"))
    assert "RDV004" not in shown(browser)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_are_read_easily(theme: str, browser: Browser, site: str) -> None:
    for page in (*PAGES, "rules/index", "rules/BAT001"):
        browser.open(f"{site}/{page}.html")
        browser.run("setColorMode(arguments[0])", theme)
        assert browser.run("return document.documentElement.dataset.bsTheme") == theme
        assert browser.run(CONTRAST) == [], page


def test_the_switch_of_themes_is_kept(browser: Browser, site: str) -> None:
    browser.open(f"{site}/index.html")
    before = browser.run("return getComputedStyle(document.body).backgroundColor")
    browser.run("document.querySelector('[data-bs-theme-value=dark]').click()")
    after = browser.run("return getComputedStyle(document.body).backgroundColor")
    browser.open(f"{site}/job.html")

    assert before != after
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == after


def test_a_small_screen_scrolls_down_alone(browser: Browser, site: str) -> None:
    browser.devtools("Emulation.setDeviceMetricsOverride", **SMALL)
    for page in (*PAGES, "rules/index", "rules/BAT001", "kinds/torchrun"):
        browser.open(f"{site}/{page}.html")
        wide = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert wide[0] <= SMALL["width"], (page, wide)


@pytest.mark.parametrize(("page", "pictures"), [("index", 3), ("architecture", 1), ("observability", 1)])
def test_pictures_are_drawn(browser: Browser, site: str, page: str, pictures: int) -> None:
    browser.open(f"{site}/{page}.html")
    drawn = browser.until("const all = [...document.images]; return all.every((each) => each.complete) && all")
    widths = browser.run("return [...document.images].map((each) => each.naturalWidth)")

    assert len(drawn) == pictures
    assert min(widths) > 400
