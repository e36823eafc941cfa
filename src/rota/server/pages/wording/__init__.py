"""What the pages say, as words: times, statuses, payloads."""
