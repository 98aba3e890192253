"""Which commit a run comes from, and how it is read without running git."""

import subprocess

import pytest

from rankbeat_agent.hooks import runs


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "code"
    folder.mkdir()

    def git(*arguments, at=folder):
        options = ["-c", "user.name=a", "-c", "user.email=a@example", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *options, *arguments], cwd=at, capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    return folder, git


def test_the_commit_of_the_repository_around_a_folder(repository):
    folder, git = repository
    (folder / "deep/down").mkdir(parents=True)

    assert runs.commit(str(folder / "deep/down")) == git("rev-parse", "HEAD")


def test_a_detached_head_and_packed_references_are_read_as_well(repository):
    folder, git = repository
    head = git("rev-parse", "HEAD")

    git("pack-refs", "--all")
    packed = runs.commit(str(folder))
    git("checkout", "-q", "--detach")

    assert (packed, runs.commit(str(folder))) == (head, head)


def test_a_worktree_has_a_commit_of_its_own(repository, tmp_path):
    folder, git = repository
    git("worktree", "add", "-q", str(tmp_path / "tree"))
    git("commit", "-q", "--allow-empty", "-m", "two", at=tmp_path / "tree")

    assert runs.commit(str(tmp_path / "tree")) == git("rev-parse", "HEAD", at=tmp_path / "tree")
    assert runs.commit(str(folder)) != runs.commit(str(tmp_path / "tree"))


def test_where_there_is_no_repository_there_is_no_commit(tmp_path):
    assert runs.commit(str(tmp_path)) is None
