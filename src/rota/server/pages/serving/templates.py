"""The templates, and what they may call.

Everything that is put into a page is escaped twice: for HTML, and so that characters that move,
reorder or hide others are written out. There is no way around it in a template.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from rota.escape import escape
from rota.server.pages.serving.assets import read_assets
from rota.server.pages.wording.payloads import Lines
from rota.server.pages.wording.times import (
    machine_instant,
    tell_distance,
    tell_instant,
    tell_length,
    tell_local,
)

FOLDER = Path(__file__).parents[1] / "templates"


@cache
def load_templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=show_plainly,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    environment.globals["asset"] = _asset
    return environment


def show_plainly(value: Any) -> Any:
    """Text with everything in it visible; absent values show nothing."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup | Lines):
        return escape(value)
    return value


def _asset(name: str) -> str:
    """The part of an address that names a static file by its content."""
    return f"static/{name}?v={read_assets()[name].version}"


@pass_context
def _moment(context: Context, instant: datetime | None) -> str:
    """How far off it is; the instant itself is there for whoever points at it, or reads HTML."""
    if instant is None:
        return ""
    return _time(instant, tell_distance(instant, context["now"]))


@pass_context
def _local(context: Context, instant: datetime | None) -> str:
    """On the clock of the server's zone."""
    return "" if instant is None else _time(instant, tell_local(instant, context["zone"]))


def _time(instant: datetime, shown: str) -> str:
    form = Markup('<time datetime="{}" title="{}">{}</time>')
    return form.format(machine_instant(instant), tell_instant(instant), shown)


def _exact(instant: datetime | None) -> str:
    return "" if instant is None else _time(instant, tell_instant(instant))


def _length(length: timedelta | None) -> str:
    return "" if length is None else tell_length(length)


def _grouped(number: int) -> str:
    """With a thin gap between thousands."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{_grouped(count)} {one if count == 1 else many or one + 's'}"


_FILTERS: dict[str, Callable[..., str]] = {
    "moment": _moment,
    "local": _local,
    "exact": _exact,
    "duration": _length,
    "grouped": _grouped,
    "plural": _plural,
}
