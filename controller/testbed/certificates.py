"""The certificate authority of a local cluster, made with openssl: for loopback, once, with keys of mode 0600."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from controller.domain.errors import BallastError

VALID_DAYS = "3650"


class CertificateFailed(BallastError):
    """Raised when openssl is missing or fails."""


class Authority:
    """The authority of a folder; what it has issued stays valid as long as the folder."""

    def __init__(self, folder: Path, option: str) -> None:
        """`option`: what a user leaves out to do without certificates, for the message where openssl is missing."""
        self.folder = folder
        self.certificate = folder / "ca.cert.pem"
        self._key = folder / "ca.key.pem"
        self._option = option

    def make(self) -> None:
        """Make key and certificate of the authority, unless they exist. Raises CertificateFailed."""
        if not (self.certificate.exists() and self._key.exists()):
            self._openssl(
                *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-sha256", "-days", VALID_DAYS),
                *("-subj", "/CN=ballast-test-authority", "-keyout", str(self._key), "-out", str(self.certificate)),
            )

    def issue(self, name: str) -> tuple[Path, Path]:
        """The files of a certificate and its key (PKCS 8), made unless they exist. Raises CertificateFailed.

        It is for 127.0.0.1 and localhost, for servers and clients; its common name is `name`.
        """
        certificate, key = self.folder / f"{name}.cert.pem", self.folder / f"{name}.key.pem"
        if certificate.exists() and key.exists():
            return certificate, key
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        self._openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-sha256", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        self._openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-sha256", "-days", VALID_DAYS),
            *("-CAkey", str(self._key), "-CAcreateserial", "-extfile", str(extensions)),
            *("-out", str(certificate)),
        )
        request.unlink()
        extensions.unlink()
        return certificate, key

    def _openssl(self, *words: str) -> None:
        binary = shutil.which("openssl")
        if binary is None:
            raise CertificateFailed(
                f"certificates are made with openssl, which is not on PATH: install it, or leave out {self._option}"
            )
        # The umask of the child alone: keys are readable by their owner from the first byte.
        done = subprocess.run([binary, *words], capture_output=True, text=True, timeout=120, check=False, umask=0o077)
        if done.returncode != 0:
            raise CertificateFailed(f"openssl {words[0]} failed: {done.stderr.strip()[-400:]}")
