"""docs/ as a site: it builds strictly, leads nowhere that is not there, and fetches nothing from elsewhere."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from trainyard.rules.aliases import ALIASES
from trainyard.rules.index import all_rules

HOME = Path(__file__).resolve().parents[2]


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    done = build(HOME, made)
    assert done.returncode == 0, done.stderr
    return made


class _Fetched(HTMLParser):
    """What a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source") and given.get("src"):
            self.addresses.append(given["src"] or "")
        if tag == "link" and given.get("href") and given.get("rel") != "canonical":
            self.addresses.append(given["href"] or "")


def test_diagrams_are_pictures() -> None:
    """Mermaid and its like are text on the site, which runs no renderer."""
    fences = {fence for file in (HOME / "docs").rglob("*.md") for fence in re.findall(r"```(\w+)", file.read_text())}
    assert fences.isdisjoint({"mermaid", "dot", "plantuml"})


def test_every_page_of_docs_is_in_it(site: Path) -> None:
    pages = {file.relative_to(HOME / "docs").with_suffix("") for file in (HOME / "docs").rglob("*.md")}
    wanted = {page.parent / "index" if page.name == "README" else page for page in pages}
    wanted |= {Path("rules") / rule for rule in (*all_rules(), *ALIASES)}
    assert wanted == {file.relative_to(site).with_suffix("") for file in site.rglob("*.html")} - {Path("404")}


@pytest.mark.claim("every-rule-has-a-page")
def test_links_to_a_rule_lead_to_its_page(site: Path) -> None:
    listed = re.findall(r'<a href="([A-Z0-9]+)\.html">\1</a>', (site / "rules" / "index.html").read_text())
    assert listed == list(all_rules())
    guides = {file: re.findall(r'href="([^"]*rules/[^"]*)"', file.read_text()) for file in site.glob("*.html")}
    linked = {each for file in guides for each in guides[file] if not each.endswith("rules/index.html")}
    assert len(linked) > 20
    assert linked <= {f"rules/{rule}.html" for rule in all_rules()}


def test_the_list_of_rules_is_grouped_by_family(site: Path) -> None:
    page = (site / "rules" / "index.html").read_text()
    families = dict.fromkeys(rule[:3] for rule in all_rules())

    assert re.findall(r'<h2 id="[^"]*">.* \(([A-Z]{3})\)', page) == list(families)
    assert page.count("<table>") == len(families)
    assert 'id="rules-filter"' in page


def test_links_to_a_rule_lead_to_its_row_in_git() -> None:
    rows = set(re.findall(r'<a id="(\w+)"></a>', (HOME / "docs" / "rules" / "README.md").read_text()))
    for file in (HOME / "README.md", *(HOME / "docs").rglob("*.md")):
        for path, row in re.findall(r"\]\(([^)#]*rules/[^)#]*)#?([^)]*)\)", file.read_text()):
            if path.endswith(".md"):
                assert path.endswith("rules/README.md"), file
                assert row in {"", *rows}, file


def test_every_guide_is_in_the_menu() -> None:
    menu = re.findall(r": ([\w./-]+\.md)$", (HOME / "mkdocs.yml").read_text(), re.MULTILINE)
    guides = [
        file.relative_to(HOME / "docs").as_posix()
        for part in ("*.md", "kinds/*.md")
        for file in (HOME / "docs").glob(part)
    ]
    assert sorted(set(guides) - set(menu)) == []


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for file in (
        site / "index.html",
        site / "architecture.html",
        site / "rules" / "index.html",
        site / "tutorial.html",
    ):
        parser = _Fetched()
        parser.feed(file.read_text())
        assert parser.addresses
        for address in parser.addresses:
            assert not re.match(r"(https?:)?//", address), (file.name, address)
            assert (file.parent / address.partition("?")[0]).is_file(), (file.name, address)
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", style.read_text()), style.name


@pytest.mark.parametrize("link", ["storage-2.md", "fabrics.md#nothing", "../base/torchrum/job.yaml"])
def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path, link: str) -> None:
    root = tmp_path / "trainyard"
    shutil.copytree(HOME / "docs", root / "docs")
    for part in ("base", "clusters", "jobs", "overlays", "tools"):
        (root / part).symlink_to(HOME / part)
    shutil.copy(HOME / "mkdocs.yml", root)
    (root / "docs" / "index.md").write_text(f"[nowhere]({link})\n")

    done = build(root, tmp_path / "site")

    assert done.returncode == 1
    assert link in done.stderr


def test_every_decision_is_listed() -> None:
    folder = HOME / "docs" / "decisions"
    listed = re.findall(r"\]\((\d{4}-[a-z-]+\.md)\) \| (.+) \|$", (folder / "README.md").read_text(), re.MULTILINE)
    assert [name for name, _ in listed] == sorted(file.name for file in folder.glob("0*.md"))
    for name, title in listed:
        head = rf"# {name[:4]} {re.escape(title)}\n\n\*\*Decided\*\* on \d{{4}}-\d\d-\d\d\. "
        assert re.match(head, (folder / name).read_text()), name
