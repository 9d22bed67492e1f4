"""schemas/catalog.json gives each file the schema that its own line names."""

import json
from fnmatch import fnmatchcase

from trainyard.docs import schema_catalogue, schema_headers
from trainyard.home import HOME

ENTRIES = json.loads(schema_catalogue.CATALOGUE.read_text())["schemas"]


def test_what_is_written_is_fresh() -> None:
    assert {file: file.read_text() for file in schema_catalogue.files()} == schema_catalogue.files()


def test_each_schema_is_in_it_under_its_id() -> None:
    addresses = {
        json.loads(file.read_text())["$id"]: file.relative_to(HOME).as_posix()
        for file in schema_catalogue.FOLDER.glob("*.json")
    }

    assert {entry["url"] for entry in ENTRIES} == addresses.keys()
    assert all(address.endswith(f"/{file}") for address, file in addresses.items())
    assert all(entry["name"] and entry["description"].endswith(".") for entry in ENTRIES)


def test_a_file_is_matched_where_its_line_names_the_schema() -> None:
    named, matched = {}, {}
    for file in schema_headers.files():
        path = file.relative_to(HOME).as_posix()
        lines = [line for line in file.read_text().splitlines() if line.startswith(schema_headers.MARK)]
        if lines and "/trainyard.dev/" in lines[0]:
            named[path] = lines[0].rpartition("/")[2]
        for entry in ENTRIES:
            if any(fnmatchcase(f"/{path}", pattern.removeprefix("**")) for pattern in entry["fileMatch"]):
                matched[path] = entry["url"].rpartition("/")[2]

    assert matched.items() <= named.items()
    assert {path.split("/")[0] for path in named.keys() - matched.keys()} <= {"base"}, "patches of bases"
    assert {"cluster_v1alpha1.json", "fabric_v1alpha1.json", "trainingjob_v1alpha1.json"} <= set(matched.values())
