import subprocess

from tests.support.bundled import load


def test_story_has_same_commits_under_any_git_config(tmp_path, monkeypatch):
    config = tmp_path / "config"
    config.write_text("[commit]\n\tgpgsign = true\n[user]\n\tname = Somebody else\n[init]\n\tdefaultBranch = trunk\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    folders = [load("story").write_story(str(tmp_path / name)) for name in ("one", "one", "two")]
    show = ["git", "log", "-1", "--format=%H %an %s", "main"]
    heads = [subprocess.check_output(show, cwd=folder, text=True) for folder in folders]
    assert len(set(heads)) == 1
    assert heads[0].endswith("A. Writer Begin the second chapter\n")
