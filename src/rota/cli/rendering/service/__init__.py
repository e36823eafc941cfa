"""Jobs, series, dead letters and gates, as the service tells of them."""
