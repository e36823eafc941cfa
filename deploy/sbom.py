"""The bill of materials of a release, as CycloneDX 1.5: ``python deploy/sbom.py > rota.cdx.json``.

It reads the pinned requirements, so it lists what ``pip install --require-hashes`` installs, and
the one third-party file that the service sends to browsers. It fetches nothing.
"""

import json
import re
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PINS = ROOT / "requirements/runtime.txt"
SCRIPT = ROOT / "src/rota/server/pages/static/htmx.min.js"

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VERSION = re.compile(r'version:"([0-9.]+)"')
_OWN_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)


def list_packages(pins: str) -> list[dict[str, Any]]:
    """Each pinned package, with the hash of every file that may be installed for it."""
    return [
        _component(name, version, f"pkg:pypi/{name}@{version}", _HASH.findall(rest))
        for name, version, rest in _PIN.findall(pins)
    ]


def describe_script(content: bytes) -> dict[str, Any]:
    """The script that the pages are served with."""
    found = _VERSION.search(content.decode())
    version = found[1] if found else "unknown"
    return _component(
        "htmx.org", version, f"pkg:npm/htmx.org@{version}", [sha256(content).hexdigest()]
    )


def make_document(pins: str, script: bytes, own_version: str) -> dict[str, Any]:
    """The whole bill of materials."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "rota", "version": own_version}},
        "components": [*list_packages(pins), describe_script(script)],
    }


def _component(name: str, version: str, purl: str, digests: list[str]) -> dict[str, Any]:
    hashes = [{"alg": "SHA-256", "content": digest} for digest in digests]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "externalReferences": [{"type": "distribution", "url": purl, "hashes": hashes}],
    }


def main() -> None:
    """Print it."""
    own = _OWN_VERSION.search((ROOT / "src/rota/__init__.py").read_text(encoding="utf-8"))
    document = make_document(
        PINS.read_text(encoding="utf-8"), SCRIPT.read_bytes(), own[1] if own else "unknown"
    )
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
