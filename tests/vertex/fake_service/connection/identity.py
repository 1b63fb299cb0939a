"""Test credentials: a TLS certificate, a service account and a token server."""

import dataclasses
import datetime
import http.server
import ipaddress
import json
import threading
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa


@dataclasses.dataclass(frozen=True)
class Identity:
    """Key and certificate of the server, in PEM, and the files that a client reads."""

    key: bytes
    certificate: bytes
    certificate_file: Path
    account_file: Path


def write_identity(folder: Path, project: str, tokens_from: str) -> Identity:
    """Write a certificate of localhost and a service account of a project, both with the same new key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate = _certificate(key).public_bytes(serialization.Encoding.PEM)
    certificate_file, account_file = folder / "certificate.pem", folder / "service_account.json"
    certificate_file.write_bytes(certificate)
    account = {
        "type": "service_account",
        "project_id": project,
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": f"tester@{project}.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": tokens_from,
    }
    account_file.write_text(json.dumps(account))
    return Identity(pem, certificate, certificate_file, account_file)


def _certificate(key: rsa.RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    # Clients reach hosts of googleapis.com through the proxy, which forwards to this server.
    names = [
        x509.DNSName("localhost"),
        x509.DNSName("*.googleapis.com"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )


class TokenServer:
    """Token endpoint that accepts any request. gRPC clients sign their own tokens, HTTP clients request one."""

    def __init__(self) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _TokenHandler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()


class _TokenHandler(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.dumps({"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
