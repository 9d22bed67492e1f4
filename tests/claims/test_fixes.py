"""What README says of fixes."""

import pytest

from tests.planted.checkout import LLAMA, Checkout
from tests.planted.conftest import checkout, untouched
from tests.said import said
from trainyard.lint.cli import main

__all__ = ["checkout", "untouched"]
PATCH = """\
apiVersion: v1
kind: PodTemplate
metadata: {name: any}
template:
  spec:
    containers:
    - name: trainer
      env:
      - name: JOB
      - {name: NCCL_IB_DISABLE, value: "true"}
"""


@pytest.mark.claim("fix-taken-back")
def test_a_fix_that_brings_another_finding_is_taken_back(checkout: Checkout) -> None:
    file = checkout.root / checkout.patch(LLAMA, PATCH, "{kind: PodTemplate}")

    done = said(main, "--no-cache", "--fix", LLAMA, cwd=checkout.root)

    assert done.code == 1
    assert "not fixed: ENV001" in done.out
    assert "then there would be another finding: NCL003" in done.out
    assert file.read_text() == PATCH
