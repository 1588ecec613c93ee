"""The badge in README opens the first tutorial of the project that pyproject.toml names, on Binder."""

from __future__ import annotations

import doctest
import importlib.util
from xml.etree import ElementTree

from tests.environments import ROOT

SPEC = importlib.util.spec_from_file_location("binder_badge", ROOT / "binder" / "badge.py")
assert SPEC is not None
assert SPEC.loader is not None
badge = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(badge)

PYPROJECT = (ROOT / "pyproject.toml").read_text()
README = (ROOT / "README.md").read_text()


def test_badge_leads_to_project_or_is_hidden():
    assert badge.with_badge(README, badge.address(PYPROJECT)) == README
    shown = badge.with_badge(README, "https://github.com/ada/engine")
    assert badge.BADGE.findall(shown) == [badge.launch("https://github.com/ada/engine")]
    assert shown.startswith("# mcp_magic\n\n[![Open in Binder]")
    assert badge.with_badge(shown, None) == badge.with_badge(README, None)
    assert "mybinder.org" not in badge.with_badge(shown, None)


def test_an_address_in_pyproject_is_all_that_the_badge_needs():
    assert doctest.testmod(badge).attempted == 2
    assert doctest.testmod(badge).failed == 0
    assert badge.address('[project]\nname = "x"') is None
    assert badge.launch(badge.address('[project.urls]\nRepository = "https://github.com/ada/engine"')).startswith(
        "https://mybinder.org/v2/gh/ada/engine/HEAD?"
    )


def test_the_badge_target_and_picture_exist():
    assert (ROOT / badge.FIRST_PAGE.removeprefix("lab/tree/")).is_file()
    assert ElementTree.parse(ROOT / "docs" / "images" / "binder.svg").getroot().get("aria-label") == "launch: binder"
