"""Debian's nginx in front of a desk: a process of a test's own with a configuration of its own."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cli.command_line import free_port
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from needed import missing
from patience import PATIENCE

NGINX = Path("/usr/sbin/nginx")
CONFIG = """
master_process off;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    ssl_certificate {folder}/certificate.pem;
    ssl_certificate_key {folder}/key.pem;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    server {{
        listen 127.0.0.1:{plain};
        listen 127.0.0.1:{tls} ssl http2;
        proxy_http_version 1.1;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header Connection $connection_upgrade;
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_set_header X-Forwarded-Proto $scheme;
        {lines}
        location {location} {{ proxy_pass http://127.0.0.1:{desk}{path}; }}
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where it listens, on 127.0.0.1: HTTP/1.1 alone on `plain`, HTTP/1.1 and HTTP/2 on `tls`."""

    plain: int
    tls: int
    certificate: Path

    @property
    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    async def until_listening(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", self.tls)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return


@contextmanager
def nginx(folder: Path, desk: int, *, lines: str = "", location: str = "/", path: str = "") -> Iterator[Proxy]:
    """In front of the port `desk`. `lines` are more of its configuration; with a `path` that takes the place of the
    location's, what is asked for is passed on under another address."""
    if not NGINX.exists():
        missing("nginx")
    proxy = Proxy(free_port(), free_port(), folder / "certificate.pem")
    make_certificate(folder)
    conf = folder / "nginx.conf"
    conf.write_text(
        CONFIG.format(
            folder=folder, plain=proxy.plain, tls=proxy.tls, desk=desk, lines=lines, location=location, path=path
        )
    )
    command = [str(NGINX), "-e", str(folder / "error.log"), "-p", str(folder), "-c", str(conf)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield proxy
    finally:
        process.kill()
        process.wait()


def make_certificate(folder: Path, host: str = "127.0.0.1") -> None:
    """For an IPv4 address, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    unencrypted = serialization.NoEncryption()
    pkcs8 = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, unencrypted))
