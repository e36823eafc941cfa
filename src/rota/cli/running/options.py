"""The options of commands that run something, each with the words that explain it."""

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

HostOption = Annotated[
    str,
    Parameter(
        metavar="ADDRESS",
        env_var="ROTA_HOST",
        help="The address to listen on; 0.0.0.0 is every one of this host.",
    ),
]
PortOption = Annotated[
    int,
    Parameter(
        metavar="NUMBER",
        env_var="ROTA_PORT",
        validator=Number(gte=0, lte=65535),
        help="The port to listen on; 0 takes any that is free.",
    ),
]
HandlersOption = Annotated[
    list[str] | None,
    Parameter(
        name="--handlers",
        metavar="MODULE:NAME",
        negative="",
        help="Handlers of your own: a mapping of kinds to functions, or a function that is given "
        "the worker; may be given again.",
    ),
]
TasksOption = Annotated[
    str | None,
    Parameter(
        metavar="MODULE:NAME",
        help="Declarative tasks to run: a list of (name, cron, callback, retry delay), or a "
        "function that returns one. Default: two tasks that watch over the store.",
    ),
]
ReloadOption = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="For development: when the files of the handlers change, start the worker anew.",
    ),
]
QueueOption = Annotated[
    list[str] | None,
    Parameter(
        name="--queue",
        metavar="NAME",
        negative="",
        help="Take jobs of this queue only; may be given again.",
    ),
]
OnlyTenantOption = Annotated[
    list[str] | None,
    Parameter(
        name="--tenant",
        metavar="NAME",
        negative="",
        help="Take jobs of this tenant only; may be given again.",
    ),
]
ConcurrencyOption = Annotated[
    int,
    Parameter(
        metavar="NUMBER",
        validator=Number(gte=1, lte=1000),
        help="How many jobs run at the same time.",
    ),
]
LinesOption = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Print what happens as lines of JSON, for log collectors.",
    ),
]
