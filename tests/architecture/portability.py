"""What would tie the project to one machine: paths, hosts and addresses of package indexes."""

import re

_SLASH = "/"  # the patterns below are put together, so that this file does not match itself
_PERSONAL = ("home", "Users")
_PRIVATE = ("root", "work", "mnt", "srv")
MACHINE_PATH = re.compile(
    rf"(?<![\w.:{_SLASH}-]){_SLASH}(?:(?:{'|'.join(_PERSONAL)}){_SLASH}\w+|(?:{'|'.join(_PRIVATE)}){_SLASH}\w+)"
    rf"|[A-Z]:\\Users\\"
)
_ADDRESS = re.compile(r"https?://(?:[^\s/@]*@)?([\w.-]+)")
_INDEX_OPTIONS = re.compile(
    r"--(?:extra-)?index-url|--find-links|--trusted-host|(?<![\w-])-i\s|^\s*-f\s", re.MULTILINE
)
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")

KNOWN_HOSTS = frozenset(
    {
        # standards and references the documentation leads to
        "data.iana.org",
        "datatracker.ietf.org",
        "docs.python.org",
        "github.com",
        "pubs.opengroup.org",
        "sqlite.org",
        "www.freedesktop.org",
        "www.iana.org",
        "www.rfc-editor.org",
        "www.sqlite.org",
        "www.w3.org",
        # the reader's own machine, and reserved example names
        "127.0.0.1",
        "example.com",
        "example.org",
        "localhost",
    }
)

NOBODYS = (".example", ".invalid", ".test")
"""Names that RFC 2606 keeps free for documentation and tests."""


def machine_paths(text: str) -> list[str]:
    return [match.group() for match in MACHINE_PATH.finditer(text)]


def unknown_hosts(text: str) -> list[str]:
    return [
        host
        for host in _ADDRESS.findall(text)
        if host.lower() not in KNOWN_HOSTS and not host.lower().endswith(NOBODYS)
    ]


def index_options(text: str) -> list[str]:
    return [match.group() for match in _INDEX_OPTIONS.finditer(text)]


def pins(text: str) -> dict[str, str]:
    """Name to version, of every requirement in a compiled file."""
    found = (_PIN.match(line) for line in logical_lines(text))
    return {match["name"].lower().replace("_", "-"): match["version"] for match in found if match}


def unpinned_lines(text: str) -> list[str]:
    """Requirements that lack an exact version or a hash."""
    return [
        line.split()[0]
        for line in logical_lines(text)
        if not _PIN.match(line) or "--hash=sha256:" not in line
    ]


def logical_lines(text: str) -> list[str]:
    joined = text.replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
