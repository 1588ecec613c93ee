"""The layers hold: a module imports from its own folder and from those before it, and no import runs in a circle."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import mcp_magic
from mcp_magic.ipython.execution import BUSY_ROOMS, DRAWING_ROOMS

PACKAGE = Path(mcp_magic.__file__).parent
LAYERS = (
    "_unicode",
    "_text",
    "_compat",
    "_sdk",
    "_startup",
    "activity",
    "errors",
    "loops",
    "schema",
    "display",
    "config",
    "results",
    "values",
    "protocol",
    "stderr",
    "records",
    "sandbox",
    "loopback",
    "sqlite",
    "junit",
    "sarif",
    "trace",
    "flight",
    "consent",
    "calls",
    "lint",
    "session",
    "telemetry",
    "ask",
    "auth",
    "skills",
    "registry",
    "apps",
    "cassette",
    "map",
    "jobs",
    "_host",
    "watch",
    "doctor",
    "addition",
    "server",
    "fuzz",
    "langchain",
    "outside",
    "agent",
    "evaluation",
    "ui",
    "notebook",
    "testing",
    "ipython",
    "__main__",
    "__init__",
)
MIDDLEWARE = {
    "ConversationMiddleware",
    "BudgetMiddleware",
    "LargeResultsMiddleware",
    "PlanMiddleware",
    "SkillsMiddleware",
    "ToolSearchMiddleware",
}
LANGCHAINS = {
    "Evaluation",
    "OfflineModel",
    "ScriptedModel",
    "build_graph",
    "judge",
    *MIDDLEWARE,
}  # models, graphs, runs of them
HEAVY = ("mcp", "mcp_types", "pandas", "IPython", "ipywidgets", "jsonschema", "langchain_core", "langgraph", "httpx2")


@cache
def modules() -> dict[str, Path]:
    names = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


@cache
def imported(name: str, path: Path) -> frozenset[str]:
    """Return what a module imports, absolute, also for type checking and inside of functions."""
    found: set[str] = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def layer(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def ours(name: str, path: Path) -> set[str]:
    known = modules()
    return {found for found in imported(name, path) if found in known} - {name}


@pytest.mark.parametrize("name", sorted(modules()), ids=str)
def test_module_imports_only_own_or_earlier_layers(name):
    assert layer(name) in LAYERS, f"{name} is in no layer; a new layer gets its place in LAYERS"
    rank = LAYERS.index(layer(name))
    for found in ours(name, modules()[name]) - {"mcp_magic"}:
        assert LAYERS.index(layer(found)) <= rank, f"{name} imports {found}"


def test_no_import_runs_in_a_circle():
    known = modules()
    graph = {name: ours(name, path) - {"mcp_magic"} for name, path in known.items()}
    packages = {name for name, path in known.items() if path.name == "__init__.py"}
    # `from package import module` names the package as well; what counts is the module
    graph = {name: {f for f in found if f not in packages or f == name} for name, found in graph.items()}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"import cycle: {error.args[1]}")


@pytest.mark.parametrize("name", sorted(n for n in modules() if layer(n) not in ("ipython", "__init__")), ids=str)
def test_only_the_ipython_room_touches_the_shell(name):
    found = imported(name, modules()[name])
    assert not [f for f in found if f.split(".")[0] == "IPython"]
    assert "print(" not in "".join(
        line for line in modules()[name].read_text().splitlines() if not line.lstrip().startswith((">>>", "..."))
    ), "nothing below the magics prints"


@pytest.mark.parametrize(
    ("first", "code", "heavy"),
    [
        pytest.param("", "import mcp_magic", r"mcp_magic\.", id="package"),
        pytest.param(
            "",
            "import mcp_magic, mcp_magic.notebook, mcp_magic.results, mcp_magic.schema, mcp_magic._host\n"
            f"for name in set(mcp_magic.__all__) - {LANGCHAINS!r}: getattr(mcp_magic, name)",
            f"({'|'.join(HEAVY)})$",
            id="public names",
        ),
        pytest.param(
            "", "import mcp_magic.results", "(mcp|mcp_types|pandas|IPython|langchain_core|pydantic)$", id="results"
        ),
        pytest.param(
            "",
            "import mcp_magic.agent.offline",
            "(mcp|mcp_types|pandas|IPython|langgraph|ipywidgets)$",
            id="offline model",
        ),
        pytest.param(
            "from IPython.core.interactiveshell import InteractiveShell",
            "InteractiveShell.instance().run_line_magic('load_ext', 'mcp_magic')",
            f"({'|'.join(name for name in HEAVY if name not in ('IPython', 'jsonschema'))})$",
            id="extension",
        ),
        pytest.param("import pytest", "import mcp_magic.testing", r"(?!mcp_magic($|\.testing))", id="plugin"),
    ],
)
def test_imports_load_nothing_heavy(first, code, heavy):
    program = f"import re, sys\n{first}\nbefore = set(sys.modules)\n{code}\n"
    program += f"print(sorted(name for name in set(sys.modules) - before if re.match({heavy!r}, name)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_rooms_whose_work_interrupt_may_end_exist():
    named = [name for name in (*BUSY_ROOMS, *DRAWING_ROOMS) if name.startswith("mcp_magic")]
    assert len(named) > 20
    assert set(named) <= modules().keys()


@pytest.mark.parametrize("name", sorted(modules()), ids=str)
def test_no_import_changes_what_another_module_has(name):
    tree = ast.parse(modules()[name].read_text())
    theirs = {
        alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    calls = [node.value.func for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    changed = [call.value for call in calls if isinstance(call, ast.Attribute)]
    changed += [
        target.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute | ast.Subscript)
    ]
    assert not [ast.unparse(value) for value in changed if isinstance(value, ast.Name) and value.id in theirs]
