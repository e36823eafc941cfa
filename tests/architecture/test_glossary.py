"""One word per idea: the glossary's words are used, and no others for the same idea."""

import re

from tests.architecture import glossary, reading, source_tree

PAGE = (source_tree.ROOT / "docs/glossary.md").read_text(encoding="utf-8")


def _identifiers() -> set[str]:
    found = (reading.identifiers(module.tree) for module in source_tree.source_modules())
    return set().union(*found)


def test_every_word_of_the_glossary_is_used() -> None:
    texts = "\n".join(module.text for module in source_tree.source_modules()).lower()
    spoken = re.sub(r"[\W_]+", " ", texts)
    unused = [
        entry.word
        for entry in glossary.entries(PAGE)
        if not re.search(rf"\b{entry.word}(?:s|es|d|ed)?\b", spoken)
    ]
    assert unused == []


def test_no_identifier_uses_another_word_for_the_same_idea() -> None:
    assert glossary.refused_uses(_identifiers(), PAGE) == []


def test_no_word_is_both_used_and_refused() -> None:
    words = [entry.word for entry in glossary.entries(PAGE)]
    refused = [phrase for entry in glossary.entries(PAGE) for phrase in entry.refused]
    assert len(words) > 30
    assert len(words) == len(set(words))
    assert set(words).isdisjoint(refused)


def test_refused_words_are_found_in_every_spelling() -> None:
    page = (
        "| word | meaning | not |\n|---|---|---|\n| occurrence | An instant. | fire time, tick |\n"
    )
    found = glossary.refused_uses({"next_fire_time", "FireTime", "tickCount", "ticket"}, page)
    assert found == [
        "FireTime: say occurrence, not fire time",
        "next_fire_time: say occurrence, not fire time",
        "tickCount: say occurrence, not tick",
    ]
