"""Random lives of a scheduler, under virtual time: the same seed, the same life, to the letter."""

from rota.testing.simulation.generator import draw_story
from rota.testing.simulation.stage import MakeScheduler, make_scheduler, play_story
from rota.testing.simulation.story import Story
from rota.testing.simulation.trial import Trial, try_seed, try_story

__all__ = [
    "MakeScheduler",
    "Story",
    "Trial",
    "draw_story",
    "make_scheduler",
    "play_story",
    "try_seed",
    "try_story",
]
