"""What a person sees when a step of `make setup` cannot be done."""

import shutil
import subprocess
import sys

import pytest

from rankbeat_cluster import programs


@pytest.fixture
def checkout(tmp_path):
    """A checkout that lacks the Go modules of the cluster."""
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "apt.txt").write_text("dpkg\n")
    (tmp_path / "dev").mkdir()
    shutil.copy(programs.REPO / "dev" / "setup.py", tmp_path / "dev")
    shutil.copytree(programs.REPO / "dev" / "rankbeat_setup", tmp_path / "dev" / "rankbeat_setup")
    return tmp_path


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not Debian")
def test_a_failed_step_is_explained_and_only_what_needs_it_is_left_out(checkout):
    command = [sys.executable, "dev/setup.py", "--only", "debian", "kubernetes", "addons"]

    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, timeout=60)

    states = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()}
    assert done.returncode == 1
    assert states == {"debian": "done", "kubernetes": "FAILED:"}
    assert str(checkout / "build" / "setup-logs" / "kubernetes.log") in done.stderr
    assert "what to do:" in done.stderr
    assert not (checkout / "build" / "setup.json").exists()
