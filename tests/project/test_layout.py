"""Where tests are: beside the module that they test, or behind the door that they go through."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import mcp_magic

TESTS = Path(__file__).parents[1]
PACKAGE = Path(mcp_magic.__file__).parent

DOORS = {
    "kernel": "through a real ipykernel, a file for a feature",
    "browser": "through JupyterLab in a browser",
    "terminal": "through IPython in a terminal",
    "notebooks": "the tutorials, live and replayed",
    "servers": "the servers of the tutorials, a file for each",
    "sdks": "servers of other SDKs",
    "conformance": "the official suite",
    "pyodide": "the kernel of JupyterLite",
    "binder": "the image for Binder",
    "benchmarks": "make bench",
    "project": "what holds for the whole project: documentation, layers, packaging, wording",
}
"""Folders of tests that belong to no package, and what they go through."""

TESTED_ELSEWHERE = {
    "_compat": "tests/pyodide/test_pyodide.py",
    "_sdk": "tests/project/test_sdk.py",
    "_unicode": "tests/display/test_visible.py",
    "activity": "tests/ui/test_explorer.py",
    "agent/events": "tests/agent/test_entries.py",
    "agent/failures": "tests/agent/test_models.py",
    "agent/settings": "tests/agent/test_graph.py",
    "apps/calls": "tests/apps/test_app.py",
    "ask/callbacks": "tests/ask/test_elicitation_floods.py",
    "ask/question": "tests/ui/test_question_requests.py",
    "auth/session": "tests/auth/test_client.py",
    "calls/task": "tests/session/test_calls.py",
    "doctor/servers": "tests/doctor/test_shadowing.py",
    "display/code": "tests/ui/test_request_form.py",
    "display/comms": "tests/kernel/test_comm_status.py",
    "display/diff": "tests/consent/test_definitions.py",
    "display/frames": "tests/display/test_tables_results.py",
    "display/json": "tests/results/test_results.py",
    "flight/attempt": "tests/session/test_http_faults.py",
    "flight/client": "tests/session/test_connection.py",
    "flight/questions": "tests/ask/test_elicitation.py",
    "flight/request": "tests/flight/test_progress.py",
    "ipython/cells": "tests/kernel/test_approval.py",
    "ipython/pages": "tests/kernel/test_outside.py",
    "ipython/preload": "tests/kernel/test_loading.py",
    "ipython/views": "tests/kernel/test_views.py",
    "langchain/variants": "tests/evaluation/test_surface.py",
    "map/bench": "tests/ipython/commands/test_map.py",
    "map/plan": "tests/map/test_run_outcomes.py",
    "notebook": "tests/project/test_public_names.py",
    "results/handles": "tests/results/test_results.py",
    "schema/formats": "tests/schema/test_validate.py",
    "schema/repair": "tests/session/test_reader_definitions.py",
    "server/http": "tests/kernel/test_server_cell.py",
    "session/listings": "tests/session/test_catalog.py",
    "session/services": "tests/trace/test_trace.py",
    "session/wire": "tests/session/test_streams.py",
    "ui/widgets": "tests/ui/test_question.py",
    "values/reading": "tests/values/test_tools.py",
    "values/rows": "tests/values/test_tables.py",
}
"""Modules that are tested through another, and the file that does it."""


def module_names() -> list[str]:
    """Return the modules of the package, such as "session/reader"."""
    names = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return sorted(str(name) for name in names if name.name not in ("__init__", "__main__"))


def file_for(module: str) -> str:
    folder, _, name = module.rpartition("/")
    return f"{folder}/test_{name.strip('_')}".lstrip("/")


def covers(test: str, module: str) -> bool:
    """Tell whether a test file is that of a module; `test_graph_refusals` is one of `graph`."""
    return f"{test}_".startswith(f"{file_for(module)}_")


def files_of_packages():
    """Return the test files that belong to packages, such as "session/test_reader"."""
    files = (path.relative_to(TESTS).with_suffix("") for path in TESTS.rglob("test_*.py"))
    return sorted(str(file) for file in files if file.parts[0] not in DOORS)


def test_every_module_has_its_test_file():
    files = files_of_packages()
    without = {name for name in module_names() if not any(covers(file, name) for file in files)}
    missing = [f"write tests/{file_for(name)}.py for {name}" for name in sorted(without - TESTED_ELSEWHERE.keys())]
    assert not missing, f"{missing}, or name in TESTED_ELSEWHERE the file that tests it"
    ours = TESTED_ELSEWHERE.keys() - without
    assert not ours, f"{ours} have a test file of their own: take them out of TESTED_ELSEWHERE"
    assert [file for file in TESTED_ELSEWHERE.values() if not (TESTS.parent / file).exists()] == []


def test_every_test_file_has_its_module():
    modules = module_names()
    alone = [file for file in files_of_packages() if not any(covers(file, name) for name in modules)]
    assert not alone, f"{alone}: a test file is named like its module, or is in a folder of DOORS"


def test_folders_of_tests_are_packages_doors_or_support():
    packages = {path.parent.relative_to(PACKAGE).parts[0] for path in PACKAGE.rglob("*/*.py")}
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and list(path.rglob("*.py"))}
    strange = folders - packages - set(DOORS) - {"support"}
    assert not strange, f"{strange}: a folder of tests is named like its package, or is in DOORS"


def test_tests_are_functions_in_files_that_are_run():
    strange = []
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
            is_other = isinstance(node, ast.FunctionDef | ast.ClassDef) and re.match(r"[Tt]est[A-Z]", node.name)
            if is_other or (is_test and not path.name.startswith("test_")):
                strange.append(f"{path.relative_to(TESTS)}: {node.name}")
    assert not strange, f"{strange}: tests are functions test_..., in files test_*.py"


def test_no_test_module_is_imported_by_another():
    imported = []
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                module = ("tests" if node.level else "") + f".{node.module or ''}"
                names += [module, *(f"{module}.{alias.name}" for alias in node.names)]
            imported += [
                f"{path.relative_to(TESTS)}: {name}"
                for name in names
                if name.strip(".").startswith("tests.") and re.search(r"\.(test_\w+|conftest)(?=\.|$)", name)
            ]
    assert not imported, f"{sorted(set(imported))}: move to tests/support what both use"


def test_every_case_has_a_short_id(request):
    """It sees the cases that the run has collected: run it together with your file."""
    long = [item.nodeid for item in request.session.items if hasattr(item, "callspec") and len(item.callspec.id) > 100]
    assert not long, f"{long}: an id is a word or two, at most 100 characters"
