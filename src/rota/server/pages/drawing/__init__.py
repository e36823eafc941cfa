"""Charts and graphs as numbers; the templates turn them into SVG."""
