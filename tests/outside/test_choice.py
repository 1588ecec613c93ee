"""Which kernel is meant, and what is said if none is."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_magic.outside.choice import HOW_TO_SERVE, Target, choose, none_serves
from mcp_magic.outside.runtime import RunningKernel


def kernel(port, folder, notebook="", started="2026-01-02T03:04:05.678"):
    return RunningKernel(port, 1, "", "", folder, notebook, f"id-{port}", started, "0")


KERNELS = [
    kernel(1, "/work/a", "x.ipynb"),
    kernel(2, "/work/a/deep", "y.ipynb"),
    kernel(3, "/work/b", "x.ipynb"),
    kernel(4, "/work/b", "z.ipynb"),
]


@pytest.mark.parametrize(
    ("folder", "name", "port"),
    [
        ("/work/a", "", 1),
        ("/work/a/deep", "", 2),
        ("/work/a/deep/er", "", 2),
        ("/work/a/other", "", 1),
        ("/work", "", None),
        ("/", "x", None),
        ("/work/b", "", None),
        ("/work/b", "z.ipynb", 4),
        ("/work/b", "x", 3),
        ("/work/ab", "", None),
        ("/elsewhere", "", None),
        ("/elsewhere", "y", 2),
        ("/elsewhere", "x", None),
        ("/elsewhere", "3", 3),
        ("/work/b", "none.ipynb", None),
    ],
)
def test_kernel_is_the_nearest_or_the_named_one(folder, name, port):
    choice = choose(KERNELS, Target((Path(folder),), name))
    assert (choice.kernel.port if choice.kernel else None) == port
    assert bool(choice.why_none) == (port is None)


def test_reasons_name_the_kernels_and_what_to_do():
    several = choose(KERNELS, Target((Path("/work/b"),))).why_none
    assert several == (
        "several kernels could be meant. These serve: x.ipynb in /work/b (since 2026-01-02T03:04); z.ipynb in /work/b "
        "(since 2026-01-02T03:04). To use one, call `find_kernels` with `use`, or start the proxy with --kernel "
        "NOTEBOOK."
    )
    why = f"no kernel serves in /x (no such folder). {HOW_TO_SERVE} Elsewhere there are others. These serve: "
    assert why in choose(KERNELS, Target((Path("/x"),))).why_none
    none = choose(KERNELS, Target((Path("/x"),), "q")).why_none
    assert "no kernel 'q' serves. These serve: " in none
    how = "To use one, call `find_kernels` with `use`, or start the proxy with --kernel NOTEBOOK. For another: "
    assert none.endswith(f"). {how}{HOW_TO_SERVE}")
    assert choose([], Target((Path("/x"),), "q")).why_none == none_serves()
    assert choose(KERNELS, Target((Path("/work/b"),)), last=KERNELS[3]).kernel == KERNELS[3]
    assert choose(KERNELS, Target((Path("/elsewhere"),), "y", is_typed=True)).kernel is None


@pytest.mark.parametrize(
    ("used", "name", "port"),
    [
        (KERNELS[3], "", 4),
        (kernel(9, "/work/b", "z.ipynb"), "", 4),
        (kernel(9, "/work/a/deep", "y.ipynb"), "x.ipynb", 2),
        (kernel(9, "/work/b", "gone.ipynb"), "x.ipynb", 3),
        (kernel(9, "/work/b", "gone.ipynb"), "", None),
        (kernel(9, "/work/b", "gone.ipynb"), "none.ipynb", None),
    ],
)
def test_kernel_in_place_of_the_used_one_counts_first(used, name, port):
    choice = choose(KERNELS, Target((Path("/work/b"),), name, used=used))
    assert (choice.kernel.port if choice.kernel else None) == port


def test_kernels_that_no_notebook_tells_apart_have_ports():
    twins = [*KERNELS[:2], kernel(5, "/work/a"), kernel(6, "/work/a/deep", "y.ipynb")]
    why = choose(twins, Target((Path("/elsewhere"),))).why_none
    assert "x.ipynb in /work/a (since 2026-01-02T03:04); y.ipynb in /work/a/deep (since 2026-01-02T03:04, " in why
    assert "port 2)" in why
    assert "a kernel without a notebook in /work/a (since 2026-01-02T03:04, port 5)" in why
    assert choose(twins, Target((Path("/elsewhere"),), "6")).kernel == twins[3]


def test_reason_says_where_it_was_looked_and_what_to_set(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    assert none_serves() == (
        f"no kernel serves: there is none in {tmp_path}/mcp_magic. {HOW_TO_SERVE} If one serves already, it has "
        "another home: `%mcp serve` there shows its token in DIR/mcp_magic/, and JUPYTER_RUNTIME_DIR=DIR goes into the "
        "`env` of the entry that starts this."
    )
    (tmp_path / "mcp_magic").mkdir()
    (tmp_path / "mcp_magic").chmod(0o755)
    assert none_serves().startswith(f"no kernel serves: {tmp_path}/mcp_magic is open to others, so nothing in it count")
