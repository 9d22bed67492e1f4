"""The table that sets linter and rehearsal side by side."""

from trainyard.rehearse.page import PAGE, page


def test_the_table_is_what_update_docs_writes() -> None:
    text = PAGE.read_text()

    assert page(text) == text
