"""Runs Django's own tests of task backends (its ``tests/tasks``) against ``rota.django``.

Usage: ``python suite.py FOLDER``, where the folder holds ``tasks``, taken from Django's source
distribution. Django's two backends are replaced before the tests load: the dummy backend by Rota's,
and the immediate backend by Rota's with a worker that runs each task as soon as it is enqueued.
Prints one line of JSON: how many tests passed, failed and do not apply, and which.
"""

import json
import sys
import unittest
from typing import Any

import django
from django.conf import settings

NOT_APPLICABLE = {
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result": (
        "Rota keeps results"
    ),
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result": (
        "Rota keeps results"
    ),
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": (
        "Rota supports run_after"
    ),
    "test_immediate_backend.ImmediateBackendTestCase.test_throws_keyboard_interrupt": (
        "tasks run in a worker, not in the caller's thread"
    ),
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result": (
        "changes a result in the dummy backend's memory"
    ),
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result_async": (
        "changes a result in the dummy backend's memory"
    ),
}


def configure() -> None:
    settings.configure(
        SECRET_KEY="for these tests only",  # noqa: S106 - not a secret
        USE_TZ=True,
        INSTALLED_APPS=["rota.django"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    )
    django.setup()


def replace_backends() -> None:
    from adapters import (  # type: ignore[import-not-found]  # beside this program
        Immediate,
        Stored,
    )
    from django.tasks.backends import dummy, immediate

    dummy.DummyBackend = Stored
    immediate.ImmediateBackend = Immediate


def main(folder: str) -> int:
    sys.path.insert(0, folder)
    configure()
    replace_backends()
    suite = unittest.defaultTestLoader.discover(f"{folder}/tasks", top_level_dir=folder)
    chosen, left_out = unittest.TestSuite(), {}
    for test in _flatten(suite):
        name = test.id().removeprefix("tasks.")
        if name in NOT_APPLICABLE:
            left_out[name] = NOT_APPLICABLE[name]
        else:
            chosen.addTest(test)
    result = unittest.TextTestRunner(stream=sys.stderr, verbosity=1).run(chosen)
    failed = sorted({test.id() for test, _ in (*result.failures, *result.errors)})
    report = {
        "run": result.testsRun,
        "passed": result.testsRun - len(failed),
        "failed": failed,
        "not_applicable": left_out,
    }
    print(json.dumps(report))  # noqa: T201 - the answer
    return bool(failed)


def _flatten(suite: Any) -> list[Any]:
    if not isinstance(suite, unittest.TestSuite):
        return [suite]
    return [test for each in suite for test in _flatten(each)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
