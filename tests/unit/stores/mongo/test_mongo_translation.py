"""What the driver reports, in the words of Rota's errors."""

import pytest
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    ServerSelectionTimeoutError,
)

from rota.errors import StoreUnavailableError
from rota.stores.mongo.translation import translate, translated


@pytest.mark.parametrize(
    ("error", "reason", "outcome"),
    [
        (ServerSelectionTimeoutError("none"), "no server", "nothing was written"),
        (AutoReconnect("gone"), "was lost", "unknown"),
        (NotPrimaryError("no"), "takes writes", "unknown"),
        (NetworkTimeout("slow"), "did not answer in time", "unknown"),
        (ConnectionResetError("reset"), "was lost", "unknown"),
        (OperationFailure("no", 13), "refuses to let this user", "nothing was written"),
        (OperationFailure("no", 10107), "takes writes", "nothing was written"),
        (BulkWriteError({"writeConcernErrors": [{"code": 91}]}), "MongoDB refused", "unknown"),
        (BulkWriteError({"writeErrors": [{"code": 1}]}), "MongoDB refused", "nothing was written"),
        (OperationFailure("odd", 1), "MongoDB refused", "nothing was written"),
    ],
)
def test_an_error_says_why_and_what_became_of_the_write(
    error: Exception, reason: str, outcome: str
) -> None:
    told = translate(error, "mongodb://host/rota")
    assert isinstance(told, StoreUnavailableError)
    assert reason in told.message
    assert told.details["outcome"] == outcome
    assert told.details["store"] == "mongodb://host/rota"


def test_other_errors_than_the_drivers_are_left_alone() -> None:
    with pytest.raises(KeyError), translated("mongodb://host/rota"):
        raise KeyError("mine")
