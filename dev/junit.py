"""Joins JUnit files: junit.py OUT IN..."""

import sys
from pathlib import Path
from xml.etree import ElementTree as ET


def joined(files: list[Path]) -> ET.Element:
    """One root with the suites of all files that are there."""
    root = ET.Element("testsuites")
    for file in files:
        if file.exists():
            root.extend(ET.parse(file).getroot().iter("testsuite"))
    return root


if __name__ == "__main__":
    out, *files = map(Path, sys.argv[1:])
    ET.ElementTree(joined(files)).write(out, encoding="utf-8", xml_declaration=True)
