"""Errors about addresses of stores."""

import pytest

from rota.errors import InvalidStoreUrlError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:s3cr3t@db/rota", "postgresql://ada:***@db/rota"),
        ("postgresql://ada:p@ss@db/rota", "postgresql://ada:***@db/rota"),
        ("postgresql://:s3cr3t@db/rota", "postgresql://:***@db/rota"),
        ("postgresql://ada@db/rota", "postgresql://ada@db/rota"),
        ("sqlite:///rota.db", "sqlite:///rota.db"),
    ],
)
def test_a_password_is_never_part_of_the_error(url: str, shown: str) -> None:
    error = InvalidStoreUrlError(url, "no")
    assert str(error) == f'Invalid store address "{shown}": no'
    assert error.details == {"url": shown, "reason": "no"}
    assert error.url == shown
