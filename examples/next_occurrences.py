"""When is it due? The nights on which the clocks change, under each rule.

It prints:

    At 01:30 every day
    the night that skips 01:30, gap="skip":  none
    the night that skips 01:30, gap="shift": 02:30 BST
    the night with 01:30 twice, fold="first": 01:30 BST
    the night with 01:30 twice, fold="both":  01:30 BST, 01:30 GMT
"""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from rota import parse_cron
from rota.triggers.zone import Fold, Gap

LONDON = ZoneInfo("Europe/London")
SPRING = datetime(2027, 3, 28, tzinfo=LONDON)
AUTUMN = datetime(2027, 10, 31, tzinfo=LONDON)

backup = parse_cron("30 1 * * *")


def shown(midnight: datetime, gap: Gap, fold: Fold) -> str:
    """The occurrences of one day, as a clock in London shows them."""
    found = backup.between(midnight, midnight + timedelta(days=1), LONDON, gap=gap, fold=fold)
    times = [f"{instant.astimezone(LONDON):%H:%M %Z}" for instant in found]
    return ", ".join(times) or "none"


if __name__ == "__main__":
    print(backup.describe())
    print('the night that skips 01:30, gap="skip": ', shown(SPRING, "skip", "both"))
    print('the night that skips 01:30, gap="shift":', shown(SPRING, "shift", "both"))
    print('the night with 01:30 twice, fold="first":', shown(AUTUMN, "skip", "first"))
    print('the night with 01:30 twice, fold="both": ', shown(AUTUMN, "skip", "both"))
