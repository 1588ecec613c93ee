"""What `notebooks/servers/needs.py` and `story.py` do for the notebook of real servers."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.bundled import FOLDER, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.kernels import Kernel

pytestmark = pytest.mark.kernel


def test_without_node_the_cells_below_say_that_they_are_skipped(start: Callable[..., Kernel]) -> None:
    kernel = start()
    kernel.ok(f"import os, sys; sys.path.insert(0, {str(FOLDER)!r}); os.environ['PATH'] = ''\nfrom needs import node")
    said = kernel.ok("node()").stdout
    assert said.startswith("Node 18 or newer is not installed (no npx on PATH)")
    assert said.endswith("The cells below are skipped: restart the kernel when it is there.\n")
    assert kernel.ok("%mcp connect -- npx nothing").stdout == "skipped\n"
    assert kernel.ok("%%mcp_agent\nDo something").stdout == "skipped\n"


def test_story_has_same_commits_under_any_git_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config"
    config.write_text("[commit]\n\tgpgsign = true\n[user]\n\tname = Somebody else\n[init]\n\tdefaultBranch = trunk\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    folders = [load("story").write_story(str(tmp_path / name)) for name in ("one", "one", "two")]
    heads = [
        subprocess.check_output(["git", "log", "-1", "--format=%H %an %s", "main"], cwd=folder, text=True)
        for folder in folders
    ]
    assert len(set(heads)) == 1
    assert heads[0].endswith("A. Writer Begin the second chapter\n")
