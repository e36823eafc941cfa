"""One process that runs the service, or parts of it, and owns the signals."""

from rota.house.engines import WorkPlan
from rota.house.house import House, HouseEnd
from rota.house.opening import Voice, open_house, run_house
from rota.house.plan import HousePlan, TaskPlan
from rota.house.web import Binding

__all__ = [
    "Binding",
    "House",
    "HouseEnd",
    "HousePlan",
    "TaskPlan",
    "Voice",
    "WorkPlan",
    "open_house",
    "run_house",
]
