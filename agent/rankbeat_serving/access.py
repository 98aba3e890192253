"""Who may read a program's pages, as files say it, and the command-line options that name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import argparse


class Access(NamedTuple):
    """Paths of files; empty: not asked for. All empty: plain HTTP for whoever comes."""

    certificate: str = ""
    key: str = ""
    client_ca: str = ""
    """Clients need a certificate of it."""
    token_file: str = ""
    """Clients need this bearer token."""


PLAIN = Access()
OPTIONS = Access("--tls-cert", "--tls-key", "--client-ca", "--client-token-file")

_PREFIX = "access_"
"""Of what argparse calls them: a program has options of its own."""


class AccessError(ValueError):
    """Files that nothing can be served by. fields: of Access; reason: what is wrong and what to write."""

    def __init__(self, fields: tuple[str, ...], reason: str) -> None:
        super().__init__(f"{' and '.join(getattr(OPTIONS, field) for field in fields)} {reason}")
        self.fields = fields
        self.reason = reason


def checked(access: Access) -> Access:
    """It, where its parts fit each other.

    Raises: AccessError.
    """
    if bool(access.certificate) != bool(access.key):
        raise AccessError(("certificate", "key"), "belong together: write both or none")
    if access.client_ca and not access.certificate:
        raise AccessError(("client_ca",), "needs TLS: write certificate and key too")
    return access


def add_options(parser: argparse.ArgumentParser) -> None:
    helps = Access(
        certificate="serve TLS; all four files are read anew when they change",
        key="of the certificate",
        client_ca="ask clients for a certificate of this CA",
        token_file="ask clients for this bearer token",  # noqa: S106 - a help text
    )
    for field in Access._fields:
        option, text = getattr(OPTIONS, field), getattr(helps, field)
        parser.add_argument(option, dest=_PREFIX + field, default="", metavar="FILE", help=text)


def given(options: argparse.Namespace) -> Access:
    """What add_options() made of a command line."""
    return Access(*(getattr(options, _PREFIX + field) for field in Access._fields))
