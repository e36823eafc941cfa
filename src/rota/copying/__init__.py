"""Everything that one store keeps is taken to another, and compared afterwards."""

from rota.copying.conditions import CopyPlan, check_idle, plan_copy
from rota.copying.mark import UNFINISHED, MarkedTarget, refuse_unfinished
from rota.copying.moving import CopyReport, Phase, Tell, copy_everything
from rota.copying.tally import Tally

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
    "refuse_unfinished",
]
