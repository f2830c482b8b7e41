"""A certificate authority for development, and the server certificates that it signs.

Real servers have certificates from a real authority; these are for your own machine or network.
Clients are identified by their keys, so they need no certificates.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bullpen.errors import Invalid, Unavailable
from bullpen.fleet.auth import private_files

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_LOCAL = "localhost"
_LOOPBACK = ("127.0.0.1", "::1")
_CA_LASTS = timedelta(days=3650)
_SERVER_LASTS = timedelta(days=825)
_CLOCKS_DIFFER = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Certificate:
    """The files that prove a server's name, and the one its clients need (`ca`)."""

    ca: Path
    certificate: Path
    key: Path


def files_of(directory: Path, host: str) -> Certificate:
    """Return where the certificate of a host is, or will be. `directory` has all keys."""
    check_host(host)
    folder = directory / "tls"
    name = host.replace(":", "_")
    return Certificate(folder / "ca.pem", folder / f"{name}.pem", folder / f"{name}.key")


def check_host(host: str) -> str:
    """Return `host` if it is the name or address of a machine. Raises Invalid."""
    if _HOST.fullmatch(host) or _address(host) is not None:
        return host
    raise Invalid(
        f"{host!r} is not the name of a machine.", remedy="Write nats-1.example.org or 10.0.0.7."
    )


def issue(directory: Path, host: str) -> Certificate:
    """Sign a certificate for a host, with the folder's authority, created if necessary."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import ExtendedKeyUsageOID as EKU
    except ImportError as error:
        raise Unavailable(
            f"Certificates cannot be created here: {error}.", remedy="Run: pip install cryptography"
        ) from error
    files = files_of(directory, host)
    authority, authority_key = _authority(files.ca)
    key = ec.generate_private_key(ec.SECP256R1())
    known_as: list[x509.GeneralName] = []
    for name in (host, *(_LOOPBACK if host == _LOCAL else ())):
        address = _address(name)
        known_as.append(x509.DNSName(name) if address is None else x509.IPAddress(address))
    builder = (
        _builder(host, authority.subject, key, _SERVER_LASTS)
        .add_extension(x509.SubjectAlternativeName(known_as), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            # Servers of a cluster are clients of one another.
            x509.ExtendedKeyUsage([EKU.SERVER_AUTH, EKU.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
    )
    _write_key(files.key, key)
    _write_certificate(files.certificate, _signed(builder, authority_key))
    return files


def _authority(path: Path) -> tuple[x509.Certificate, EllipticCurvePrivateKey]:
    """Return the authority of a folder; a new one if there is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key_path = path.with_suffix(".key")
    if path.exists():
        data = private_files.read(
            key_path, remedy=f"Delete {path}, then create the certificates of all hosts again."
        )
        kept = load_pem_private_key(data.encode(), None)
        assert isinstance(kept, ec.EllipticCurvePrivateKey)
        return x509.load_pem_x509_certificate(path.read_bytes()), kept
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Bullpen development CA")])
    builder = (
        _builder("Bullpen development CA", name, key, _CA_LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    made = _signed(builder, key)
    _write_key(key_path, key)
    _write_certificate(path, made)
    return made, key


def _builder(
    common_name: str, issuer: x509.Name, key: EllipticCurvePrivateKey, lasts: timedelta
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    # The field holds 64 characters; only the alternative names matter.
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name[:64])])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + lasts)
    )


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives.hashes import SHA256

    return builder.sign(key, SHA256())


def _write_key(path: Path, key: EllipticCurvePrivateKey) -> None:
    from cryptography.hazmat.primitives import serialization as form

    data = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    private_files.write(path, data.decode("ascii"))


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    from cryptography.hazmat.primitives.serialization import Encoding

    private_files.write(path, certificate.public_bytes(Encoding.PEM).decode("ascii"))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
