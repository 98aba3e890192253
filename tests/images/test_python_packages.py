import importlib.util
import subprocess
import sys

import pytest

from rankbeat_images import errors, places, python_packages

IMAGES = places.REPOSITORY / "dev/images"
UNCHECKED_HASH = 0b01


def a_package(folder):
    package = folder / "rankbeat_example"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "NAMES = frozenset({'rank', 'step', 'gap'})\nif 'x' in {'a', 'b', 'c'}: pass\n"
    )
    (package / "schema.proto").write_text("syntax = 'proto3';\n")
    (package / "__pycache__" / "__init__.cpython-39.pyc").write_bytes(b"left by a test run")
    return package


def copied(package, folder):
    python_packages.copy_own((package,), python_packages.Target(folder, "/opt/rankbeat"))
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}


def test_our_packages_are_copied_as_sources_and_compiled_anew(tmp_path):
    found = copied(a_package(tmp_path / "repository"), tmp_path / "image")

    assert set(found) == {
        "rankbeat_example/__init__.py",
        "rankbeat_example/schema.proto",
        f"rankbeat_example/__pycache__/__init__.{sys.implementation.cache_tag}.pyc",
    }


def test_bytecode_is_valid_whatever_the_age_of_its_source_and_the_same_each_time(tmp_path):
    package = a_package(tmp_path / "repository")
    compiled = f"rankbeat_example/__pycache__/__init__.{sys.implementation.cache_tag}.pyc"

    first, second = (copied(package, tmp_path / name)[compiled].read_bytes() for name in ("one", "two"))

    assert first == second
    assert first[:4] == importlib.util.MAGIC_NUMBER
    assert int.from_bytes(first[4:8], "little") == UNCHECKED_HASH
    assert b"/opt/rankbeat/rankbeat_example/__init__.py" in first


def test_a_missing_package_is_named_with_the_remedy(tmp_path):
    with pytest.raises(errors.MissingInputError, match=r"missing '.*nowhere': an image needs this package"):
        python_packages.own_files(tmp_path / "nowhere")


def test_an_unknown_image_is_refused_with_the_known_ones():
    command = [sys.executable, "-m", "rankbeat_images", "operators"]

    ran = subprocess.run(command, capture_output=True, text=True, cwd=IMAGES, check=False)

    assert ran.returncode == 1
    assert ran.stderr.startswith("error: no image is called 'operators', choose from operator, node, aggregator")
