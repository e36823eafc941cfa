"""Rules in words."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from rota.triggers.rrule import parse_rrule

LONDON = ZoneInfo("Europe/London")
START = datetime.fromisoformat("2024-03-14T09:00")  # a Thursday


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("FREQ=DAILY", "Every day at 09:00"),
        ("FREQ=WEEKLY", "Every week on Thursday at 09:00"),
        ("FREQ=MONTHLY", "Every month on the 14th at 09:00"),
        ("FREQ=YEARLY", "Every year on 14 March at 09:00"),
        ("FREQ=YEARLY;BYMONTH=1,7", "Every year in January and July on the 14th at 09:00"),
        ("FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=1,2,22", "Every year on 1, 2 and 22 May at 09:00"),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO;BYHOUR=18;BYMINUTE=0;BYSECOND=0",
            "Every 2 weeks on Monday at 18:00",
        ),
        ("FREQ=WEEKLY;BYDAY=FR,MO,TU", "Every week on Monday, Tuesday and Friday at 09:00"),
        ("FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "Every week on Monday to Friday at 09:00"),
        (
            "FREQ=WEEKLY;BYDAY=MO,TU,WE,SA",
            "Every week on Monday to Wednesday and Saturday at 09:00",
        ),
        ("FREQ=MONTHLY;BYDAY=-1FR", "Every month on the last Friday of the month at 09:00"),
        (
            "FREQ=MONTHLY;BYDAY=2MO,WE",
            "Every month on the 2nd Monday and every Wednesday of the month at 09:00",
        ),
        ("FREQ=YEARLY;BYDAY=20MO", "Every year on the 20th Monday of the year at 09:00"),
        (
            "FREQ=YEARLY;BYMONTH=11;BYDAY=4TH",
            "Every year in November on the 4th Thursday of the month at 09:00",
        ),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", "Every month on the last day of the month at 09:00"),
        (
            "FREQ=MONTHLY;BYMONTHDAY=1,-2",
            "Every month on the 1st day and the 2nd to last day of the month at 09:00",
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR",
            "Every month on the 13th if that is Friday at 09:00",
        ),
        (
            "FREQ=YEARLY;BYYEARDAY=100,-1",
            "Every year on the 100th day and the last day of the year at 09:00",
        ),
        ("FREQ=YEARLY;BYWEEKNO=20", "Every year in week 20 at 09:00"),
        (
            "FREQ=YEARLY;BYWEEKNO=20,21,22;BYDAY=MO",
            "Every year in weeks 20 to 22 on Monday at 09:00",
        ),
        (
            "FREQ=YEARLY;BYWEEKNO=-1;BYDAY=MO",
            "Every year in the last week of the year on Monday at 09:00",
        ),
        ("FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0,30", "Every day at 09:00, 09:30, 17:00 and 17:30"),
        ("FREQ=DAILY;BYSECOND=5", "Every day at 09:00:05"),
        (
            "FREQ=DAILY;BYHOUR=9,10,11,12;BYMINUTE=0,30",
            "Every day during hours 9 to 12 at minutes 0 and 30 at second 0",
        ),
        ("FREQ=HOURLY", "Every hour"),
        ("FREQ=MINUTELY;INTERVAL=5", "Every 5 minutes"),
        ("FREQ=MINUTELY;INTERVAL=15;BYHOUR=9", "Every 15 minutes during hour 9"),
        ("FREQ=HOURLY;BYMINUTE=0;BYDAY=SU", "Every hour on Sunday at minute 0"),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "Every month on Monday to Friday at 09:00, only the last of each month",
        ),
        (
            "FREQ=MONTHLY;BYDAY=SU;BYSETPOS=1,-2",
            "Every month on Sunday at 09:00, only the 1st and the 2nd to last of each month",
        ),
        ("FREQ=DAILY;COUNT=10", "Every day at 09:00, 10 times"),
        ("FREQ=DAILY;COUNT=1", "Every day at 09:00, once"),
        ("FREQ=DAILY;UNTIL=20251231", "Every day at 09:00, until 31 December 2025"),
        ("FREQ=DAILY;UNTIL=20251231T180000", "Every day at 09:00, until 31 December 2025 18:00"),
        ("FREQ=DAILY;UNTIL=20250102T183015", "Every day at 09:00, until 2 January 2025 18:30:15"),
        (
            "FREQ=DAILY;UNTIL=20251231T180030Z",
            "Every day at 09:00, until 31 December 2025 18:00:30 UTC",
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=1,2,3,11,12,13,21",
            "Every month on the 1st, 2nd, 3rd, 11th, 12th, 13th and 21st at 09:00",
        ),
        (
            "FREQ=DAILY\nRDATE:20250101T120000\nEXDATE:20240401T090000,20240402",
            "Every day at 09:00, plus 1 date, except 2 dates",
        ),
        (
            "FREQ=DAILY;BYHOUR=1,3,5,7,9,11",
            "Every day at 01:00, 03:00, 05:00, 07:00, 09:00 and 11:00",
        ),
        (
            "FREQ=DAILY;BYHOUR=1,3,5,7,9,11,13",
            "Every day during hours 1, 3, 5, 7, 9, 11 and 13 at minute 0 at second 0",
        ),
        ("FREQ=MONTHLY;BYMONTH=5;BYMONTHDAY=1", "Every month in May on the 1st at 09:00"),
        (
            "FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=-1",
            "Every year in May on the last day of the month at 09:00",
        ),
        (
            "FREQ=YEARLY;BYMONTH=5;BYMONTHDAY=1;BYDAY=MO",
            "Every year in May on the 1st if that is Monday at 09:00",
        ),
        (
            "FREQ=YEARLY;BYMONTH=5;BYYEARDAY=130",
            "Every year in May on the 130th day of the year at 09:00",
        ),
        (
            "FREQ=MONTHLY;BYMONTH=3;BYDAY=1MO",
            "Every month in March on the 1st Monday of the month at 09:00",
        ),
        (
            "FREQ=YEARLY;BYYEARDAY=112,-122",
            "Every year on the 112th day and the 122nd to last day of the year at 09:00",
        ),
        (
            "FREQ=YEARLY;BYYEARDAY=100;BYDAY=MO",
            "Every year on the 100th day of the year if that is Monday at 09:00",
        ),
        ("FREQ=YEARLY;BYMONTH=5;BYWEEKNO=20", "Every year in May in week 20 at 09:00"),
        ("FREQ=MINUTELY;BYSECOND=5", "Every minute at second 5"),
        ("FREQ=HOURLY;BYMINUTE=5,7;BYSECOND=5", "Every hour at minutes 5 and 7 at second 5"),
        ("FREQ=DAILY;COUNT=2", "Every day at 09:00, 2 times"),
        (
            "FREQ=DAILY\nRDATE:20250101T120000,20250102T120000\nEXDATE:20240401T090000",
            "Every day at 09:00, plus 2 dates, except 1 date",
        ),
        (
            "FREQ=YEARLY;BYWEEKNO=-1,-2",
            "Every year in the 2nd to last week and the last week of the year at 09:00",
        ),
    ],
)
def test_a_rule_is_described_in_words(text: str, words: str) -> None:
    assert parse_rrule(text, zone=LONDON, start=START).describe() == words
