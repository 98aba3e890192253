"""The folder tree keeps its promises (docs/adr/0001-layout.md)."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_no_top_folder_is_a_package():
    assert [path.parent.name for path in ROOT.glob("*/__init__.py")] == []


def test_tests_hold_no_packages():
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_the_standard_librarys_operator_module_wins_from_the_root():
    found = subprocess.run(
        [sys.executable, "-S", "-c", "import operator; print(operator.__file__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert Path(found.stdout.strip()).parent != ROOT / "operator"


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_lock_files_name_no_host(path: Path):
    assert "://" not in path.read_text()
