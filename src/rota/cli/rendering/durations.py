"""How long until then, short enough for a column."""

from datetime import timedelta


def format_duration(duration: timedelta) -> str:
    """The two largest units that matter, cut and never rounded up: "3h 20m", "5d 2h", "133d"."""
    seconds = int(duration.total_seconds())
    if seconds < 60:
        return f"{seconds}s"
    minutes, second = divmod(seconds, 60)
    if minutes < 60:
        return _pair(minutes, "m", second, "s")
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return _pair(hours, "h", minute, "m")
    days, hour = divmod(hours, 24)
    return _pair(days, "d", hour, "h") if days < 10 else f"{days}d"


def format_milliseconds(milliseconds: float) -> str:
    """A duration as handlers take: "0.4ms", "38ms", "1.2s", and longer ones as above."""
    if milliseconds < 1:
        return f"{milliseconds:.1f}ms"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f}ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1_000:.1f}s"
    return format_duration(timedelta(milliseconds=milliseconds))


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit} {small}{small_unit}" if small else f"{large}{large_unit}"
