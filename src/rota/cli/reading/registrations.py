"""Registrations that a user names on the command line as ``module:name``."""

from typing import Any

from rota.runtime.user_modules import load_reference, refuse

OPTION = "--tasks"


def read_registrations(reference: str) -> list[Any]:
    """The list at ``module:name``, or what the function of that name returns.

    What the list holds is checked by the scheduler.
    """
    found = load_reference(reference, OPTION)
    registrations = found() if callable(found) else found
    if not isinstance(registrations, list | tuple):
        raise refuse(reference, OPTION, "it is neither a list nor a function that returns one")
    return list(registrations)
