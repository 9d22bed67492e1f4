"""Rules, for mkdocs: each gets its page from the rule itself, and a link to its row in the list leads to the page.

The list alone is kept in Git, where links lead to its rows. On the site it is grouped by family, and can be filtered.
"""

import re
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).resolve().parent))

from trainyard.docs.pages import documents

LIST = "rules/README.md"
TITLES = {
    "ACC": "What containers ask of the API server",
    "API": "What a real API server answers",
    "BAT": "Batch, learning rate and precision",
    "CKP": "Checkpoints",
    "CTR": "Job folder, wiring and facts",
    "DSP": "DeepSpeed's configuration",
    "ENV": "Environment variables",
    "GIT": "Argo CD, Flux and what Git holds",
    "GNG": "Gangs",
    "GPU": "GPUs",
    "IMG": "Images",
    "INP": "Input that cannot be judged",
    "JBS": "JobSets",
    "JOB": "Jobs",
    "KUS": "Kustomizations",
    "LCH": "Launchers",
    "LOG": "Logs",
    "MEM": "Memory",
    "MET": "Metrics in alerts and dashboards",
    "MOD": "Models and datasets",
    "MON": "Monitoring",
    "MPI": "MPI",
    "NAM": "Names and labels",
    "NCL": "NCCL",
    "NET": "NetworkPolicies and Services",
    "OPR": "Operators of Kubeflow",
    "PLC": "Placement",
    "PRB": "Probes and the end of a pod",
    "PSA": "Pod Security",
    "QUE": "Queues of Kueue",
    "RAY": "Ray",
    "RBA": "Accounts and rights",
    "RDV": "Rendezvous",
    "REF": "References to other objects",
    "RES": "Resources and quotas",
    "RHS": "What a rehearsal shows",
    "RST": "Restarts and exit codes",
    "SCH": "Schemas",
    "SEC": "Security",
    "SIC": "Sidecars",
    "SNW": "Second networks and RDMA devices",
    "STO": "Storage",
    "SUP": "Suppressions",
    "TRJ": "TrainJobs",
    "VOL": "Volcano",
}
"""What the rules of a family are about, by the first letters of their ids."""

_LINK = re.compile(r"\]\(((?:\.\./)*rules/)README\.md#([A-Z]{3}\d{3})\)")
_ROW = re.compile(r'<a id="([A-Z]{3}\d{3})"></a>\1')
_FAMILY = re.compile(r"</a>([A-Z]{3})\d{3} \|")


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Called by mkdocs with the files of docs/."""
    for name, text in documents().items():
        files.append(File.generated(config, f"rules/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for each page."""
    if page.file.src_uri == LIST:
        markdown = grouped(markdown)
    return _ROW.sub(r"[\1](\1.md)", _LINK.sub(r"](\1\2.md)", markdown))


def grouped(markdown: str) -> str:
    """The list of rules with a table for each family. PluginError for a family without a title."""
    head, heading, table = markdown.partition("| id | name | severity | fix | what it says |\n")
    rule, *rows = table.splitlines(keepends=True)
    parts = [head, '<div id="rules-filter" role="search"></div>\n']
    for family, of_it in groupby(rows, key=_family):
        if family not in TITLES:
            raise PluginError(f"{Path(__file__).name}: say in TITLES what the rules {family} are about")
        parts += [f"\n## {TITLES[family]} ({family})\n\n", heading, rule, *of_it]
    return "".join(parts)


def _family(row: str) -> str:
    found = _FAMILY.findall(row)
    return found[-1] if found else ""
