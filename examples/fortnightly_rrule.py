"""Every second Tuesday at nine in Berlin, begun ten years ago, and the next occurrences.

The answer takes microseconds, because Rota does not walk over ten years. It follows the clocks of
Berlin: nine o'clock there is eight o'clock UTC in winter and seven in summer.

It prints:

    Tue 16 March 2027, 09:00 CET = 08:00 UTC
    Tue 30 March 2027, 09:00 CEST = 07:00 UTC
    Tue 13 April 2027, 09:00 CEST = 07:00 UTC
"""

from datetime import UTC, datetime
from itertools import islice
from zoneinfo import ZoneInfo

from rota import parse_rrule

BERLIN = ZoneInfo("Europe/Berlin")

review = parse_rrule(
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU",
    zone=BERLIN,
    start=datetime(2017, 3, 14, 9, 0, tzinfo=BERLIN),
)

if __name__ == "__main__":
    year = review.between(datetime(2027, 3, 10, tzinfo=UTC), datetime(2027, 12, 31, tzinfo=UTC))
    for instant in islice(year, 3):
        print(f"{instant.astimezone(BERLIN):%a %d %B %Y, %H:%M %Z} = {instant:%H:%M} UTC")
