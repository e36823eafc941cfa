"""Schedules in words."""

import pytest

from rota.triggers.cron import parse_cron

WORDS = {
    "* * * * *": "Every minute",
    "*/5 * * * *": "Every 5 minutes",
    "0,30 * * * *": "Every 30 minutes",
    "0 * * * *": "Every hour",
    "30 * * * *": "At minute 30 of every hour",
    "0,17,30 * * * *": "At minutes 0, 17 and 30 of every hour",
    "0-29 * * * *": "At minutes 0 to 29 of every hour",
    "5/20 * * * *": "At minutes 5, 25 and 45 of every hour",
    "10,11 * * * *": "At minutes 10 and 11 of every hour",
    "*/40 * * * *": "At minutes 0 and 40 of every hour",
    "0 9 * * 1-5": "At 09:00 on Monday to Friday",
    "0 9 * * *": "At 09:00 every day",
    "30 9,17 * * *": "At 09:30 and 17:30 every day",
    "0,30 9 * * *": "At 09:00 and 09:30 every day",
    "0 */5 * * *": "At 00:00, 05:00, 10:00, 15:00 and 20:00 every day",
    "* 9 * * *": "Every minute from 09:00 to 09:59",
    "* 9-17 * * 1-5": "Every minute from 09:00 to 17:59 on Monday to Friday",
    "*/15 9,17 * * *": "Every 15 minutes of the hours 09 and 17",
    "*/20 */2 * * *": "Every 20 minutes of every 2nd hour",
    "*/20 */3 * * *": "Every 20 minutes of every 3rd hour",
    "0 */2 * * *": "Every 2 hours",
    "0 */12 * * *": "Every 12 hours",
    "5 */4 * * *": "At minute 5 of every 4th hour",
    "0 8-18 * * 1-5": "Every hour from 08:00 to 18:00 on Monday to Friday",
    "1 8-18 * * *": "At minute 1 from 08:00 to 18:59",
    "5,10,17 9-17 * * *": "At minutes 5, 10 and 17 from 09:00 to 17:59",
    "0 1-4,9,11,13 * * *": "At minute 0 of the hours 01 to 04, 09, 11 and 13",
    "0 0 1,15 * 5": "At 00:00 on day 1 and 15 of the month, or on Friday",
    "0 0 1 * *": "At 00:00 on day 1 of the month",
    "0 0 1-7,31 * *": "At 00:00 on day 1 to 7 and 31 of the month",
    "17 4 1 1,7 *": "At 04:17 on day 1 of January and July",
    "0 0 29 2 *": "At 00:00 on day 29 of February",
    "0 0 * 1 *": "At 00:00 every day in January",
    "0 0 * 10-12 0,6": "At 00:00 on Saturday and Sunday in October to December",
    "0 0 13 1-3 5": "At 00:00 on day 13 of the month, or on Friday, in January to March",
    "0 12 1-31 * 1": "At 12:00 on day 1 to 31 of the month, or on Monday",
    "0 0 * * 5,6,0": "At 00:00 on Friday to Sunday",
    "0 0 * * 6,0,1": "At 00:00 on Monday, Saturday and Sunday",
    "0 0 * * 1,2": "At 00:00 on Monday and Tuesday",
    "* * * 1 1": "Every minute on Monday in January",
    "* * 1 1 *": "Every minute on day 1 of January",
    "* * * 2 *": "Every minute in February",
    "@hourly": "Every hour",
    "@weekly": "At 00:00 on Sunday",
    "* * * * * *": "Every second",
    "*/10 * * * * *": "Every 10 seconds",
    "*/10 * 9-17 * * 1": "Every 10 seconds from 09:00 to 17:59 on Monday",
    "30 * * * * *": "At second 30 of every minute",
    "5,20 * * * * *": "At seconds 5 and 20 of every minute",
    "0 * * * * *": "Every minute",
    "0 0 9 * * *": "At 09:00 every day",
    "15 30 9 * * *": "At 09:30:15 every day",
    "*/10 */5 * * * *": "Every 10 seconds of every 5th minute",
    "5 0 * * * *": "At second 5 of minute 0 of every hour",
    "* 5 9-17 * * 1": "Every second of minute 5 from 09:00 to 17:59 on Monday",
    "* */2 */2 * * *": "Every second of every 2nd minute of every 2nd hour",
}


@pytest.mark.parametrize("text", WORDS)
def test_a_schedule_reads_as_english(text: str) -> None:
    assert parse_cron(text, "extended").describe() == WORDS[text]
