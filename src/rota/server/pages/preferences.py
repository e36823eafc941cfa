"""What people choose for their own browser: colours, and the zone of the times they see."""

from datetime import tzinfo
from typing import NamedTuple
from urllib.parse import quote, unquote
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import Response

from rota.errors import InvalidInputError, InvalidRequestError
from rota.server.pages.visit import Visit, keep_cookie, read_form, read_target
from rota.triggers.zone import load_zone

COOKIE = "rota_display"
KEPT_SECONDS = 365 * 24 * 60 * 60
THEMES = {"": "as the system", "light": "light", "dark": "dark"}


class Preferences(NamedTuple):
    """``theme`` is a key of ``THEMES``. Without ``zone``, times are in the zone of the server."""

    theme: str = ""
    zone: ZoneInfo | None = None

    @property
    def zone_name(self) -> str:
        return "" if self.zone is None else self.zone.key


def read_preferences(request: Request) -> Preferences:
    """The preferences in the cookie. What is not valid there counts as not chosen."""
    theme, _, name = unquote(request.cookies.get(COOKIE, "")).partition(" ")
    try:
        zone = load_zone(name) if name else None
    except InvalidInputError:
        zone = None
    return Preferences(theme if theme in THEMES else "", zone)


async def save_preferences(visit: Visit) -> Response:
    """Keep what was chosen in a cookie, and show the same page again."""
    form = await read_form(visit.request)
    theme, name = form.one("theme"), form.one("zone")
    if theme not in THEMES:
        raise InvalidRequestError("theme", "must be light, dark or empty")
    if name:
        load_zone(name)
    answer = Response(
        status_code=303, headers={"Location": read_target(visit.request, form.one("back"))}
    )
    keep_cookie(visit, answer, COOKIE, quote(f"{theme} {name}"), KEPT_SECONDS)
    return answer


def name_zone(zone: tzinfo) -> str:
    """The name of a zone for people."""
    return zone.key if isinstance(zone, ZoneInfo) else str(zone)
