"""The options of commands that look after jobs."""

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from rota.cli.reading.ids import check_argument

JobArgument = Annotated[
    str, Parameter(metavar="ID", validator=check_argument, help="The id of a job.")
]
LimitOption = Annotated[
    int,
    Parameter(metavar="NUMBER", validator=Number(gte=1, lte=10_000), help="The most to list."),
]
WhyOption = Annotated[str | None, Parameter(metavar="TEXT", help="The reason, for the audit log.")]
CascadeOption = Annotated[
    bool,
    Parameter(
        negative="",
        show_default=False,
        help="Submit the jobs again, too, that were blocked because of it.",
    ),
]
YesOption = Annotated[
    bool, Parameter(name=["--yes", "-y"], negative="", show_default=False, help="Do not ask.")
]
PAYLOAD_HELP = "What the handler is given; @FILE, or - for standard input."
PayloadOption = Annotated[
    str, Parameter(metavar="JSON", allow_leading_hyphen=True, help=PAYLOAD_HELP)
]
NewPayloadOption = Annotated[
    str | None, Parameter(metavar="JSON", allow_leading_hyphen=True, help=PAYLOAD_HELP)
]
