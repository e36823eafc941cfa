"""The series of a tenant: what recurs, when it does next, and how it went the last times."""

from rota.control.series.listing import SeriesPage, find_series, list_series
from rota.control.series.record import SeriesDetail, SeriesRun, SeriesSummary

__all__ = [
    "SeriesDetail",
    "SeriesPage",
    "SeriesRun",
    "SeriesSummary",
    "find_series",
    "list_series",
]
