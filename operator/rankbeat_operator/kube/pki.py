"""Keys and certificates: an authority of our own and what it signs."""

import datetime as dt
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rankbeat_operator.plan import certificates
from rankbeat_operator.plan.certificates import Certificate


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: str
    key: str


def authority(now: float) -> Pair:
    """A new authority, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"rankbeat {int(now)}")])
    builder = _builder(name, name, key, now, certificates.AUTHORITY_SECONDS)
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _pair(builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()), key)


def serving(signer: Pair, hosts: tuple[str, ...], now: float) -> Pair:
    """A certificate by which a server proves that it is hosts, and no client anything."""
    return _leaf(signer, hosts, now, ExtendedKeyUsageOID.SERVER_AUTH)


def client(signer: Pair, hosts: tuple[str, ...], now: float) -> Pair:
    """Likewise of a client."""
    return _leaf(signer, hosts, now, ExtendedKeyUsageOID.CLIENT_AUTH)


def _leaf(signer: Pair, hosts: tuple[str, ...], now: float, usage: x509.ObjectIdentifier) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, signing_key = x509.load_pem_x509_certificate(signer.certificate.encode()), _key(signer)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    builder = _builder(name, issuer.subject, key, now, certificates.SERVING_SECONDS)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False)
    )
    return _pair(builder.sign(signing_key, hashes.SHA256()), key)


def read(pem: str, authorities: tuple[str, ...] = ()) -> Certificate | None:
    """What decisions need of a certificate, None if it is none. issuer: the one of authorities that signed it."""
    try:
        certificate = x509.load_pem_x509_certificate(pem.encode())
    except ValueError:
        return None
    return Certificate(
        fingerprint=_fingerprint(certificate),
        not_before=certificate.not_valid_before_utc.timestamp(),
        not_after=certificate.not_valid_after_utc.timestamp(),
        issuer=next((_fingerprint(signer) for signer in _signers(certificate, authorities)), ""),
        hosts=_hosts(certificate),
    )


def _signers(certificate: x509.Certificate, authorities: tuple[str, ...]) -> list[x509.Certificate]:
    candidates = [x509.load_pem_x509_certificate(pem.encode()) for pem in authorities]
    return [candidate for candidate in candidates if _is_issued_by(certificate, candidate)]


def _is_issued_by(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(signer)
    except Exception:  # noqa: BLE001 InvalidSignature, TypeError or ValueError: it did not sign this
        return False
    return True


def _hosts(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(names.value.get_values_for_type(x509.DNSName))


def _fingerprint(certificate: x509.Certificate) -> str:
    return certificate.fingerprint(hashes.SHA256()).hex()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: float, lasts_seconds: float
) -> x509.CertificateBuilder:
    start = dt.datetime.fromtimestamp(int(now - certificates.BACKDATED_SECONDS), dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + dt.timedelta(seconds=lasts_seconds + certificates.BACKDATED_SECONDS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key(pair: Pair) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pair.key.encode(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(
            f"key of the authority is {type(key).__name__}, delete Secret rankbeat-ca-key to have a new one"
        )
    return key


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )
