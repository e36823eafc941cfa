"""Random lives of a scheduler, under virtual time: the same seed, the same life, to the letter."""

from tests.verification.simulation.generator import draw_story
from tests.verification.simulation.stage import MakeScheduler, make_scheduler, play_story
from tests.verification.simulation.story import Story
from tests.verification.simulation.trial import Trial, try_seed, try_story

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
