"""`rankbeat decrypt`: encrypted outputs in clear."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, List, Optional

import typer

from rankbeat_collector.errors import DecryptionError, SettingsError
from rankbeat_collector.files import audit, keys

if TYPE_CHECKING:
    from rankbeat_collector.files.encryption import Opened

_FILES = typer.Argument(help="Files of an output, NAME.enc.", show_default=False)
_KEY_FILE = typer.Option(..., "--key-file", "-k", help="The Secret's key: 32 bytes, hexadecimal or base64.")
_OUTPUT = typer.Option(None, "--output", "-o", help="Where one file's content goes; - is standard output. [NAME]")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(decrypt)


def decrypt(files: List[Path] = _FILES, key_file: Path = _KEY_FILE, output: Optional[Path] = _OUTPUT) -> None:
    """Write encrypted files in clear, beside them without .enc; exit 1 if one was changed or the key is another.

    Nothing is written of a file that was changed. A file whose end is missing (its writer was killed, or still writes)
    is written as far as it goes, and that is said.
    """
    if output is not None and len(files) > 1:
        sys.exit("rankbeat: --output is for one file, give one")
    try:
        key = keys.key_from(key_file)
        for file in files:
            _decrypt(file, key, _target(file) if output is None else output)
    except ModuleNotFoundError as error:
        sys.exit(f"rankbeat: {error.name} is not installed: pip install 'rankbeat[encryption]'")
    except (DecryptionError, SettingsError) as error:
        sys.exit(f"rankbeat: {error}")
    except OSError as error:
        sys.exit(f"rankbeat: {error.filename}: {error.strerror}")


def _target(file: Path) -> Path:
    if file.suffix != keys.SUFFIX:
        sys.exit(f"rankbeat: {file} does not end in {keys.SUFFIX}, say where it goes with --output")
    return file.with_suffix("")


def _decrypt(file: Path, key: keys.Key, target: Path) -> None:
    from rankbeat_collector.files import encryption  # noqa: PLC0415 - an extra, which may not be there

    with file.open("rb") as opened:
        sealed = encryption.Opened(opened, key, str(file))
        if str(target) == "-":
            for chunk in sealed.chunks():
                sys.stdout.buffer.write(chunk)
        else:
            _write(target, sealed)
    audit.note_view(file, "rankbeat decrypt")
    if sealed.was_cut:
        print(f"rankbeat: {file} has no end: its writer was killed, still writes, or it was cut", file=sys.stderr)


def _write(target: Path, sealed: "Opened") -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("xb") as file:
            for chunk in sealed.chunks():
                file.write(chunk)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
