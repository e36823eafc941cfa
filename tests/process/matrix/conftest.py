"""Prints what was seen where, after the tests of the matrix."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports("passed")
    rows = [dict(it.user_properties)["matrix"] for it in reports if _is_row(it)]
    if not rows:
        return
    terminalreporter.section("what was seen where")
    columns = list(rows[0])
    table = [columns, *([row[name] for name in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        padded = (word.ljust(width) for word, width in zip(line, widths, strict=True))
        terminalreporter.write_line("  ".join(padded).rstrip())


def _is_row(report: pytest.TestReport) -> bool:
    return report.when == "call" and "matrix" in dict(report.user_properties)
