"""The page: whole with one node and with five hundred, loads nothing, and shows what runs say as text only."""

import json
import re
from html.parser import HTMLParser

import pytest

from tests.benchreport.conftest import BASELINE, Bench
from tests.benchreport.made import run
from tests.by_day import by_day

pytestmark = pytest.mark.report
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>`|@everyone [a](b) https://a.example #1"
EMPTY = {"meta", "path", "circle", "rect"}


class Page(HTMLParser):
    """Tags, their attributes, and whether each is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] == "meta":
            self.open.pop()
        assert self.open.pop() == tag


def page(bench: Bench, nodes: int, name: str = "gpu-east-later") -> str:
    bench.locked(nodes)
    slow = {"node-002": 0.93} if nodes > 2 else {}
    later = [run(number, nodes, slow) for number in range(BASELINE, BASELINE + 8)]
    later[-1]["name"] = name
    later[-1]["nodes"][name] = later[-1]["nodes"]["node-000"]
    files = bench.write(later[:-1])
    (bench.folder / "last.json").write_text(json.dumps(later[-1]))
    bench.compare(*files, "last.json", "--html", "page.html", "--markdown", "page.md")
    return (bench.folder / "page.html").read_text()


@pytest.mark.claim("bench-page-loads-nothing")
@pytest.mark.parametrize("nodes", by_day([1, 4, 500], 1, 4))
def test_it_loads_nothing_and_has_every_section(bench: Bench, nodes: int) -> None:
    text = page(bench, nodes)
    found = Page(text)
    assert found.open == []
    assert not {"script", "link", "img", "iframe", "object", "image", "use"} & {tag for tag, _ in found.tags}
    for tag, attributes in found.tags:
        for key, value in attributes.items():
            assert not key.startswith("on"), (tag, key)
            assert key not in ("src", "href", "xlink:href", "style") or (value or "").startswith("#"), (tag, key, value)
    assert "url(" not in text
    assert "@import" not in text
    assert re.findall(r"<h2>(.*?)</h2>", text) == [
        "Findings", "Cluster", "Nodes", "Models", "Kubernetes", "Runs", "What it ran on",
    ]  # fmt: skip
    assert "prefers-color-scheme:dark" in text
    assert len(text) < 1000 * nodes + 60_000


def test_each_node_stands_in_it_and_the_slow_one_is_marked(bench: Bench) -> None:
    text = page(bench, 500)
    rows = re.findall(r"<tr( class=\"bad\")?><td>(node-\d+)</td>", text)
    assert sorted(name for _, name in rows) == [f"node-{number:03d}" for number in range(500)]
    assert [name for bad, name in rows if bad] == ["node-002"]
    assert rows[0][1] == "node-002"


def test_names_of_runs_and_nodes_are_text(bench: Bench) -> None:
    text = page(bench, 4, HOSTILE)
    assert "<script" not in text
    assert "<img" not in text
    assert "&lt;script&gt;" in text


def test_names_are_code_in_a_comment(bench: Bench) -> None:
    bench.locked(4)
    later = run(BASELINE, 4)
    later["fingerprint"]["hardware"]["GPUs"] = HOSTILE

    bench.compare(*bench.write([later]), "--markdown", "page.md")

    comment = (bench.folder / "page.md").read_text()
    assert "everyone" in comment
    outside = re.sub(r"<code>(?:[A-Za-z0-9 ,/=%-]|&#[0-9]+;|<!---->)*</code>", "", comment)
    assert not re.search(r"[<>@\[\]\\`]|https?:|#[0-9]", outside), outside
