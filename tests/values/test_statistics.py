"""What a description says of a column."""

from __future__ import annotations

import pytest

from mcp_magic.values.statistics import statistics_text
from mcp_magic.values.vectors import of_cells


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([1, 2, None], "1 missing, 1 to 2, mean 1.5"),
        ([0.123456789, 1e20], "0.123457 to 1e+20, mean 5e+19"),
        ([None], "1 missing"),
        ([-(2**63)], f"{-(2**63):.6g} to {-(2**63):.6g}, mean {-(2**63):.6g}"),
        ([], ""),
        ([True, False, True], "2 true, 1 false"),
        (["a", "a", "b"], "2 different: 'a' 2 times"),
        (["x" * 100] * 2, f"1 different: '{'x' * 39}…' 2 times"),
        (["sesame"] * 2, "1 different: '***' 2 times"),
        (["a", 1, None], "1 missing"),
    ],
)
def test_statistics_are_few_words(cells, text):
    assert statistics_text(of_cells(cells), lambda text: text.replace("sesame", "***")) == text
