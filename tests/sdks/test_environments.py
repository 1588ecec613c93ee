import sys

import pytest

from tests import environments


@pytest.fixture
def built():
    return []


def test_environment_is_made_again_only_for_other_versions(tmp_path, built):
    def build(folder):
        assert not list(folder.iterdir())
        (folder / "content").write_text("x")
        built.append(folder.name)

    folder = tmp_path / "cache" / "env"
    assert environments.ensure(folder, {"a": "1"}, build)
    assert not environments.ensure(folder, {"a": "1"}, build)
    assert environments.ensure(folder, {"a": "2"}, build)
    assert built == ["env", "env"]


def test_an_installation_that_failed_is_made_anew(tmp_path, built):
    def build(folder):
        (folder / "half").write_text("x")
        built.append(folder.name)
        if len(built) == 1:
            environments.run([sys.executable, "-c", "import sys; sys.exit('no network')"])
        assert [path.name for path in folder.iterdir()] == ["half"]

    with pytest.raises(environments.InstallationError, match="ended with code 1:\nno network"):
        environments.ensure(tmp_path / "env", {}, build)
    assert environments.ensure(tmp_path / "env", {}, build)


def test_cache_is_in_checkout_unless_variable_moves_it(tmp_path, monkeypatch):
    monkeypatch.delenv("MCP_MAGIC_TEST_CACHE", raising=False)
    assert environments.cache() == (environments.ROOT / ".cache").resolve()
    monkeypatch.setenv("MCP_MAGIC_TEST_CACHE", str(tmp_path))
    assert environments.cache() == tmp_path.resolve()


def test_missing_npm_is_an_error_that_says_what_is_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(environments.InstallationError, match="need Node 18 or newer"):
        environments.make_node()


def test_missing_servers_error_says_how_to_install(monkeypatch):
    monkeypatch.setattr(environments, "SHARED_PACKAGES", ("mcp-server-that-is-not-there",))
    with pytest.raises(environments.InstallationError, match=r"not-there is not installed: pip install -e '\.\[dev\]'"):
        environments.check_shared()
