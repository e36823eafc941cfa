"""Static files, and the templates with their filters.

Every value in a page is escaped twice: for HTML, and to make invisible or reordering characters
visible. A template cannot avoid this.
"""

import gzip
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import sha256
from html import escape as quote_html
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from rota.escape import escape
from rota.ops.bulk import list_actions
from rota.ops.explanation import name_error
from rota.server.pages.charts import Box
from rota.server.pages.formats import (
    Lines,
    describe_end,
    describe_limits,
    excerpt,
    format_count,
    format_distance,
    format_instant,
    format_length,
    format_local,
    format_ms,
    format_seconds,
    in_words,
    machine_instant,
    show_details,
)
from rota.server.pages.statuses import count_attempts, find_worker, measure_run, sign_of

FOREVER = "public, max-age=31536000, immutable"
REVALIDATE = "no-cache"
ICON = "icon.svg"

_INSTANT = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\b")
_FOLDER = Path(__file__).parent
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


class Asset(NamedTuple):
    """A static file, as it is and compressed. ``version`` is a hash of its content."""

    body: bytes
    compressed: bytes
    content_type: str
    version: str


@cache
def read_assets() -> dict[str, Asset]:
    """Every static file by name. There are few, and they are small."""
    found = sorted((_FOLDER / "static").iterdir())
    return {path.name: _read(path) for path in found if path.suffix in _TYPES}


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    compressed = gzip.compress(body, mtime=0)
    return Asset(body, compressed, _TYPES[path.suffix], sha256(body).hexdigest()[:16])


async def send_asset(request: Request) -> Response:
    """A static file. Browsers cache it forever under its version, and revalidate otherwise."""
    asset = read_assets().get(request.path_params["name"])
    if asset is None:
        return Response("Not found", status_code=404, media_type="text/plain")
    return _send(asset, request)


async def send_icon(request: Request) -> Response:
    """The icon at the default path of browsers."""
    return _send(read_assets()[ICON], request)


def _send(asset: Asset, request: Request) -> Response:
    is_exact = request.query_params.get("v") == asset.version
    headers = {
        "Content-Type": asset.content_type,
        "Cache-Control": FOREVER if is_exact else REVALIDATE,
        "ETag": f'"{asset.version}"',
        "Vary": "Accept-Encoding",
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    is_shorter = len(asset.compressed) < len(asset.body)
    if is_shorter and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.compressed, headers={**headers, "Content-Encoding": "gzip"})
    return Response(asset.body, headers=headers)


@cache
def load_templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=show_plainly,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(_FILTERS)
    environment.globals["asset"] = asset_path
    return environment


def compile_templates() -> None:
    """Compile every template, which takes a while: the first visitor need not wait for it."""
    environment = load_templates()
    for name in environment.list_templates():
        environment.get_template(name)


def show_plainly(value: Any) -> Any:
    """Text with every character visible; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, str) and not isinstance(value, Markup | Lines):
        return escape(value)
    return value


def asset_path(name: str) -> str:
    """The address of a static file with its version."""
    return f"static/{name}?v={read_assets()[name].version}"


def _as_of_now(judge: Callable[[Any, datetime], Any]) -> Callable[[Context, Any], Any]:
    """What the function says of something as of the time of the page."""

    @pass_context
    def judge_now(context: Context, shown: Any) -> Any:
        return judge(shown, context["now"])

    return judge_now


@pass_context
def _excerpt(context: Context, payload: Any) -> str:
    return excerpt(payload, context["visit"].context.masked_words)


@pass_context
def _moment(context: Context, instant: datetime | None) -> str:
    """The distance from now; the exact instant is in the attributes."""
    if instant is None:
        return ""
    return _time(instant, format_distance(instant, context["now"]))


def _length_of(length: timedelta | None) -> str:
    return "" if length is None else format_length(length)


@pass_context
def _local(context: Context, instant: datetime | None) -> str:
    """The wall time in the zone of the pages."""
    return "" if instant is None else _time(instant, format_local(instant, context["zone"]))


def _time(instant: datetime, shown: str) -> str:
    exact, title = machine_instant(instant), format_instant(instant)
    return _mark(f'<time datetime="{exact}" title="{title}">{_quote(shown)}</time>')


@pass_context
def _instants(context: Context, text: str) -> str:
    """A sentence whose instants are shown in the zone of the pages, unbroken."""

    def show(found: re.Match[str]) -> str:
        at = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        return _time(at, format_local(at, context["zone"]))

    return _mark(_INSTANT.sub(show, _quote(text)))


def _plural(count: int, one: str, many: str | None = None) -> str:
    return f"{format_count(count)} {one if count == 1 else many or one + 's'}"


def _share(part: float, whole: float) -> str:
    """In percent: "12.5 %"."""
    return f"{part / whole:.1%}".replace("%", " %")


def _known(write: Callable[[float], str]) -> Callable[[float | None], str]:
    """Nothing for a number that is not known."""
    return lambda number: "" if number is None else write(number)


def _lines(text: str) -> str:
    """Text that keeps its line breaks."""
    return Lines("\n".join(escape(line) for line in text.split("\n")))


def _table_rows(rows: Iterable[Sequence[str]]) -> str:
    """Rows of numbers, each with a heading. A template takes ten times as long for a cell."""
    return _mark(
        "".join(
            f'<tr><th scope="row">{_quote(row[0])}</th>'
            + "".join(f'<td class="number">{_quote(it)}</td>' for it in row[1:])
            + "</tr>\n"
            for row in rows
        )
    )


def _breakable(text: str) -> str:
    """Text that may be broken behind each part, and so is not broken within one."""
    return _mark(";<wbr>".join(_quote(part) for part in text.split(";")))


def _rects(boxes: Iterable[Box]) -> str:
    return _mark(
        "".join(
            f'<rect class="{_quote(it.look)}" x="{it.x}" y="{it.y}" width="{it.width}" '
            f'height="{it.height}"><title>{_quote(it.title)}</title></rect>'
            for it in boxes
        )
    )


def _quote(text: str) -> str:
    """Text as a template would write it."""
    return quote_html(escape(text))


def _mark(text: str) -> Markup:
    """HTML whose values are quoted already. Where there are many, a template would be slow."""
    return Markup(text)  # noqa: S704 - its callers quote every value


_FILTERS: dict[str, Callable[..., Any]] = {
    "table_rows": _table_rows,
    "rects": _rects,
    "breakable": _breakable,
    "lines": _lines,
    "length_of": _length_of,
    "ms": _known(format_ms),
    "seconds": _known(format_seconds),
    "share": _share,
    "sign": _as_of_now(sign_of),
    "actions": _as_of_now(list_actions),
    "measured": _as_of_now(measure_run),
    "worker": find_worker,
    "attempts": count_attempts,
    "excerpt": _excerpt,
    "in_words": in_words,
    "details": show_details,
    "limits": describe_limits,
    "empty_in": describe_end,
    "error_line": name_error,
    "moment": _moment,
    "local": _local,
    "wall": format_local,
    "instants": _instants,
    "grouped": format_count,
    "plural": _plural,
}
