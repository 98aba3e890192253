"""The cluster's own certificates and kubeconfigs, made anew for each cluster in about 0.1 s.

Kubernetes bootstraps the RBAC of these names itself (docs/sources.md); no further binding is needed.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

SERVICE_ADDRESS = "10.92.0.1"
LIFETIME = dt.timedelta(days=30)
CLIENTS = {  # file: (common name, organization)
    "admin": ("rankbeat-admin", "system:masters"),
    "apiserver-kubelet-client": ("kube-apiserver-kubelet-client", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
}
APISERVER_NAMES = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that can sign."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def _subject(common_name: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


def _write_key(path: Path, key: PrivateKeyTypes) -> None:
    pem = serialization.Encoding.PEM
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    )


def authority(folder: Path, name: str) -> Authority:
    """A new authority, kept as folder/NAME.crt and .key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(f"rankbeat-{name}")
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(subject, subject, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(folder / f"{name}.key", key)
    (folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(certificate, key)


def issue(
    signer: Authority, place: Path, subject: tuple[str, str], names: Sequence[str] = (), addresses: Sequence[str] = ()
) -> None:
    """A certificate for clients, and for servers too when it has names or addresses, kept as PLACE.crt and .key."""
    key = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    builder = _builder(_subject(*subject), signer.certificate.subject, key).add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()), critical=False
    )
    if names or addresses:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    certificate = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False).sign(signer.key, hashes.SHA256())
    _write_key(place.with_name(place.name + ".key"), key)
    place.with_name(place.name + ".crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def make(folder: Path, nodes: dict[str, str]) -> None:
    """Every key and certificate of a cluster in one folder.

    nodes: address by node name; empty for a control plane alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca = authority(folder, "ca")
    for name, subject in CLIENTS.items():
        issue(ca, folder / name, subject)
    issue(ca, folder / "apiserver", ("kube-apiserver", ""), APISERVER_NAMES,
          ("127.0.0.1", SERVICE_ADDRESS, *nodes.values()))  # fmt: skip
    for name, address in nodes.items():
        issue(ca, folder / f"kubelet-{name}", (f"system:node:{name}", "system:nodes"), (name,), (address,))
    front_proxy = authority(folder, "front-proxy-ca")
    issue(front_proxy, folder / "front-proxy-client", ("front-proxy-client", ""))
    _write_key(folder / "service-accounts.key", rsa.generate_private_key(public_exponent=65537, key_size=2048))


def kubeconfig(pki: Path, client: str, server: str, place: Path) -> Path:
    """A kubeconfig (JSON, which is YAML) with the client's certificate inside, at `place`."""

    def base64_of(name: str) -> str:
        return base64.b64encode((pki / name).read_bytes()).decode()

    user = {"client-certificate-data": base64_of(f"{client}.crt"), "client-key-data": base64_of(f"{client}.key")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "rankbeat", "cluster": {"server": server, "certificate-authority-data": base64_of("ca.crt")}}
        ],
        "users": [{"name": client, "user": user}],
        "contexts": [{"name": "rankbeat", "context": {"cluster": "rankbeat", "user": client}}],
        "current-context": "rankbeat",
    }
    place.touch(mode=0o600)
    place.write_text(json.dumps(content, indent=1))
    return place
