"""The keys, certificates and tokens of one control plane: made afresh at each start, worth nothing afterwards."""

import ipaddress
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Fixed, so that a wrong clock or a suspended laptop can't make a throw-away certificate invalid.
NOT_BEFORE = datetime(2020, 1, 1, tzinfo=UTC)
NOT_AFTER = datetime(2119, 12, 31, tzinfo=UTC)

HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The files that a control plane starts with, and the two tokens that its token file knows."""

    ca: Path
    serving_certificate: Path
    serving_key: Path
    service_account_key: Path
    tokens: Path
    admin_token: str
    controller_manager_token: str


def write_credentials(folder: Path) -> Credentials:
    """Make them all below `folder`, readable by us alone."""
    folder.mkdir(mode=0o700)
    ca_key, serving_key, service_account_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
    ca = _certificate_authority(ca_key)
    serving = _serving_certificate(serving_key, ca, ca_key)
    admin, controller_manager = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    made = Credentials(
        ca=folder / "ca.crt",
        serving_certificate=folder / "apiserver.crt",
        serving_key=folder / "apiserver.key",
        service_account_key=folder / "service-accounts.key",
        tokens=folder / "tokens.csv",
        admin_token=admin,
        controller_manager_token=controller_manager,
    )
    _write(made.ca, ca.public_bytes(Encoding.PEM))
    _write(made.serving_certificate, serving.public_bytes(Encoding.PEM))
    _write(made.serving_key, _pem(serving_key))
    _write(made.service_account_key, _pem(service_account_key))
    # The controller manager has a name of its own in the audit log, but needs no roles that take time to appear.
    known = f"{admin},admin,admin,system:masters\n"
    known += f"{controller_manager},system:kube-controller-manager,controller-manager,system:masters\n"
    _write(made.tokens, known.encode())
    return made


def _certificate_authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _name("fleetagent local control plane")
    return (
        _builder(name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, SHA256())
    )


def _serving_certificate(
    key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in HOSTS]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
    return (
        _builder(_name("kube-apiserver"), ca.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, SHA256())
    )


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOT_BEFORE)
        .not_valid_after(NOT_AFTER)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
