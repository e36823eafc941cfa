"""The shape of ``src/rota``: folders, classes and the words of its prose."""

import ast
import re
from collections import Counter
from itertools import chain

from tests.architecture import counting, reading, source_tree

MOST_ATTRIBUTES = 10
STILTED = (
    *(
        "whoever",
        "nobody",
        "somebody",
        "so many",
        "so long",
        r"such a\b",
        r"(?<!there )is no (?!longer)",
    ),
    *("mended", "called off", "handed in", "comes again", "told of"),
)
"""Words that hide who does what; say it in plain, short sentences."""

STILTED_FILES = {"stores": 4}
"""How many files of each package still use one of these words. It only ever gets less."""


def find_mutual_folders() -> set[tuple[str, str]]:
    """Pairs of folders that import each other; a package and its own subpackages may."""
    pairs = reading.folder_imports(source_tree.source_modules())
    return {
        (one, other)
        for one, other in pairs
        if one < other and (other, one) in pairs and not other.startswith(f"{one}.")
    }


def find_gerund_folders() -> set[str]:
    folders = chain.from_iterable(
        module.path.split("/")[1:-1] for module in source_tree.source_modules()
    )
    return {name for name in folders if name.endswith("ing") and name != "testing"}


def find_large_classes() -> set[str]:
    return {
        count.name
        for module in source_tree.source_modules()
        for count in counting.attribute_counts(module.tree)
        if count.number > MOST_ATTRIBUTES
    }


def count_stilted_files() -> Counter[str]:
    pattern = re.compile("|".join(rf"\b{word}" for word in STILTED), re.IGNORECASE)
    return Counter(
        module.path.split("/")[2]
        for module in source_tree.source_modules()
        if pattern.search(module.text)
    )


def test_no_two_folders_import_each_other() -> None:
    assert find_mutual_folders() == set()


def test_folders_are_nouns() -> None:
    assert find_gerund_folders() == set()


def test_no_class_has_too_many_attributes() -> None:
    assert find_large_classes() == set()


def test_the_prose_is_plain() -> None:
    found = count_stilted_files()
    assert {
        name: count for name, count in found.items() if count > STILTED_FILES.get(name, 0)
    } == {}


def test_attributes_are_counted_where_the_constructor_sets_them() -> None:
    tree = ast.parse(
        "class C:\n    def __init__(self):\n        self.a = self.b = 1\n        self.c: int = 2\n"
    )
    assert [(count.name, count.number) for count in counting.attribute_counts(tree)] == [("C", 3)]
