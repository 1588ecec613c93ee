"""What is displayed of an evaluation: the table, differences, errors and wrong cases."""

from __future__ import annotations

import re

from mcp_magic.display.document import mimebundle
from mcp_magic.errors import ModelError
from mcp_magic.evaluation.evaluation import new_evaluation
from tests.support.evaluated import CASES, answering


async def test_display_tells_shares_differences_and_what_is_wrong(evaluation):
    text = re.sub(r"turns of 4 cases, [\d.]+ m?s", "turns of 4 cases, N ms", str(evaluation))
    assert text.splitlines() == [
        "✓ 16 of 16 first turns of 4 cases, N ms, 1,760 tokens",
        "",
        "model  right  95 % interval  tool  arguments  runs",
        "good   100%   51% to 100%    100%  100%          8",
        "bad    75%    30% to 95%     100%  67%           8",
        "",
        f"bad against good: {evaluation.compare('good', 'bad')}",
        "",
        "Wrong in 1 of 4 cases:",
        "✗ And an apple? (2 of 4 wrong with bad): shop:price: item is 'pear', expected 'apple'",
    ]


async def test_click_opens_the_transcript_of_a_wrong_run(evaluation):
    html = mimebundle(evaluation)["text/html"]
    assert html.count("<details><summary>And an apple? (2 of 4 wrong with bad)") == 1
    assert "mcp-call" in html
    assert 'aria-label="75% [30%, 95%]"' in html
    assert "http" not in html


async def test_texts_of_cases_and_models_are_escaped(host):
    cases = "<img src=x> of a pear? -> no call\n"
    evaluation = await host.evaluate(cases, {"<b>m</b>": answering()}, tools_only=True)
    html = mimebundle(evaluation)["text/html"]
    assert "<img" not in html
    assert "<b>m</b>" not in html
    assert "&lt;b&gt;m&lt;/b&gt;" in html


async def test_errors_are_counted_and_the_stop_is_told(host):
    evaluation = new_evaluation(host, CASES, answering(lambda messages: ModelError("down")), runs=5, concurrency=1)
    evaluation.name = lambda: "scores"
    await evaluation.run()
    text = str(evaluation)
    assert text.startswith("✗ 3 of 20 runs of 4 cases")
    assert "It stopped: the first 3 runs failed: down; `await scores.resume()` makes the other 20 runs" in text
    assert "3 runs: down" in text


async def test_display_needs_no_journal(host, tmp_path):
    cases = "And an apple? -> no call\n"
    evaluation = await host.evaluate(cases, answering(), tools_only=True, journal=tmp_path / "j")
    assert "mcp-call" in mimebundle(evaluation)["text/html"]
    for file in tmp_path.iterdir():
        file.unlink()
    (tmp_path / "j").write_text("no journal" * 1000)
    assert "shop:price" in mimebundle(evaluation)["text/html"]
