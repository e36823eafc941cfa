"""Headers that every answer carries, so that a browser does nothing with it that was not meant."""

from collections.abc import Iterable

RawHeaders = Iterable[tuple[bytes, bytes]]

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)

PERMISSIONS_POLICY = ", ".join(
    f"{feature}=()" for feature in ("camera", "geolocation", "microphone", "payment", "usb")
)

ANSWER_HEADERS: tuple[tuple[bytes, bytes], ...] = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": CONTENT_SECURITY_POLICY,
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        # Not "no-referrer": with it browsers send "Origin: null" even between our own pages.
        "referrer-policy": "same-origin",
        "permissions-policy": PERMISSIONS_POLICY,
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }.items()
)

_NAMES = frozenset(name for name, _ in ANSWER_HEADERS)


def complete_headers(given: RawHeaders, request_id: bytes) -> list[tuple[bytes, bytes]]:
    """The headers of an answer with those that it lacks; what it says itself holds.

    So a file that is the same for everybody may be cached, and everything else is not. Names are in
    lower case, as ASGI has them.
    """
    headers = list(given)
    said = {name for name, _ in headers if name in _NAMES}
    headers += [it for it in ANSWER_HEADERS if it[0] not in said] if said else ANSWER_HEADERS
    headers.append((b"x-request-id", request_id))
    return headers
