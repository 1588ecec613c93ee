from __future__ import annotations

import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell

from mcp_magic.notebook import host
from tests.support.bundled import load
from tests.support.magic import Magic


@pytest.fixture(scope="module")
def module_shell():
    """A shell for all tests of a module: at its end, each shell costs a full garbage collection."""
    main = sys.modules["__main__"]
    yield InteractiveShell()
    sys.modules["__main__"] = main


@pytest.fixture
def shell(module_shell):
    """A shell whose variables are those of a new one."""
    names = dict(module_shell.user_ns)
    yield module_shell
    module_shell.user_ns.clear()
    module_shell.user_ns.update(names)


@pytest.fixture
async def magic(shell, monkeypatch, tmp_path):
    """Run `%mcp LINE` in a shell, in a folder of its own, with the server "math" connected."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    for name in ("policy", "magics"):  # a test may set another one
        monkeypatch.setattr(host.consent, name, getattr(host.consent, name))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # IPython warns where another environment is activated
    magic = Magic(shell, tmp_path)
    await host.connect(load("math_server").server, name="math")
    yield magic
    host.consent.rules.clear()
    host.consent.audit.records.clear()
    host.trace.clear()
    host.protocols.clear()
    await host.close()
