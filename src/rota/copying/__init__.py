"""Everything that one store keeps is taken to another, and compared afterwards."""

from rota.copying.comparing import Phase, Tell
from rota.copying.conditions import CopyPlan, check_idle, plan_copy
from rota.copying.mark import UNFINISHED, MarkedTarget, refuse_unfinished
from rota.copying.moving import CopyReport, copy_everything, recognise_copy
from rota.copying.tally import Tally
from rota.copying.traces import refuse_same_store

__all__ = [
    "UNFINISHED",
    "CopyPlan",
    "CopyReport",
    "MarkedTarget",
    "Phase",
    "Tally",
    "Tell",
    "check_idle",
    "copy_everything",
    "plan_copy",
    "recognise_copy",
    "refuse_same_store",
    "refuse_unfinished",
]
