"""A difference as one page that needs nothing else."""

from collections.abc import Iterator, Sequence
from html import escape

from trainyard.diff.model import Difference, FindingLine, FolderDiff
from trainyard.report.escape import visible

_HEAD = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }} td, th {{ border: 1px solid #ccc; padding: .2rem .6rem; text-align: left; }}
pre {{ background: #f6f8fa; color: #1f2328; padding: .6rem; overflow-x: auto; }}
code, td {{ font-family: ui-monospace, monospace; }}
ins {{ color: #116329; text-decoration: none; }} del {{ color: #a40e26; text-decoration: none; }}
.error {{ color: #a40e26; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #0d1117; color: #e6edf3; }} }}
</style>
</head>
<body>
<h1>{title}</h1>
"""


def html(difference: Difference) -> str:
    """The page."""
    title = _said(f"Jobs since {difference.base} ({difference.commit})")
    lines = [_HEAD.format(title=title), f"<p>{_said(difference.headline)}</p>\n"]
    for folder in difference.folders:
        lines += [f"{line}\n" for line in _folder(folder)]
    return "".join([*lines, "</body>\n</html>\n"])


def _folder(folder: FolderDiff) -> Iterator[str]:
    yield f"<h2>{folder.kind.value} <code>{_said(folder.name)}</code></h2>"
    yield f"<p>{_said(folder.kind.meaning)}</p>"
    if folder.same:
        yield f"<p>The same for {', '.join(f'<code>{_said(name)}</code>' for name in folder.same)}.</p>"
    for side, problem in (("The base", folder.problem_before), ("It", folder.problem)):
        if problem:
            yield f'<p class="error">{side} does not render: <code>{_said(problem)}</code></p>'
    if folder.shown:
        yield from _table(folder)
    told = [*_findings("new", folder.new), *_findings("fixed", folder.fixed)]
    told += _findings("newly suppressed", folder.silenced)
    told += [f"<li>{_said(said)}</li>" for said in folder.counted]
    if told:
        yield from ("<ul>", *told, "</ul>")
    for item in folder.objects:
        yield f"<details><summary><code>{_said(item.title)}</code> is {item.what}</summary>"
        yield "<pre>" + "\n".join(map(_line, item.lines)) + "</pre>"
        yield "</details>"


def _table(folder: FolderDiff) -> Iterator[str]:
    yield "<table>"
    if not folder.one_sided:
        yield "<tr><th></th><th>before</th><th>after</th></tr>"
    for change in folder.shown:
        values = [change.after or change.before] if folder.one_sided else [change.before, change.after]
        cells = "".join(f"<td>{_said(value)}</td>" for value in values)
        yield f"<tr><th>{_said(change.name)}</th>{cells}</tr>"
    yield "</table>"


def _findings(what: str, told: Sequence[FindingLine]) -> Iterator[str]:
    for finding in told:
        where = f" <code>{_said(finding.where)}</code>" if finding.where else ""
        said = f"{finding.severity}[{finding.rule}] {finding.message}"
        why = f", since: <code>{_said(finding.reason)}</code>" if finding.reason else ""
        yield f'<li class="{_said(finding.severity)}">{what}: {_said(said)}{where}{why}</li>'


def _line(line: str) -> str:
    tag = {"+": "ins", "-": "del"}.get(line[:1])
    return f"<{tag}>{_said(line)}</{tag}>" if tag else _said(line)


def _said(text: str) -> str:
    return escape(visible(text), quote=True)
