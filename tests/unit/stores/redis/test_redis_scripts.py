"""The scripts say what they take and give; they spell no key, and build none from others."""

import re
from pathlib import Path

import pytest

import rota.stores.redis
from rota.stores.redis.keys import DOCUMENT_KEYS, JOB_KEYS, name_keys
from rota.stores.redis.scripts import load_script

FOLDER = Path(rota.stores.redis.__path__[0])
FILES = sorted(FOLDER.rglob("*.lua"))
PARTS = {"choice", "ends", "heads", "index", "ready", "timing"}
VERBS = [path for path in FILES if path.stem not in PARTS]
_LABELS = ("KEYS", "ARGV", "reply", "atomic")


def _name(path: Path) -> str:
    return path.relative_to(FOLDER).as_posix()


def test_there_are_scripts() -> None:
    assert len(VERBS) > 15
    assert {path.stem for path in FILES} >= PARTS


@pytest.mark.parametrize("path", VERBS, ids=_name)
def test_a_script_says_what_it_takes_and_gives_and_why_it_is_one_step(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0].startswith(f"-- {path.stem}: ")
    labels = [line.split()[1] for line in lines if re.match(r"-- \w", line)]
    assert [label for label in labels if label in _LABELS] == list(_LABELS)


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_script_spells_a_key_or_computes_one(path: Path) -> None:
    code = "\n".join(line.partition("--")[0] for line in path.read_text().splitlines())
    calls = re.findall(r"redis\.call\(\s*'(\w+)',\s*([\w\[\]]+)\s*([,.)])", code)
    passed_on = code.count("redis.call(command, key, unpack(")
    passed_on += len(re.findall(r"redis\.call\('PUBSUB', 'NUMSUB', (ENDS|PARKED)\)", code))
    assert len(calls) == code.count("redis.call(") - passed_on
    for command, key, following in calls:
        assert following != ".", f"{command} computes a key"
        assert re.fullmatch(r"KEYS\[\d\]|[A-Z]+|key", key), f"{command} {key}"


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_no_script_asks_for_all_keys_or_for_the_time(path: Path) -> None:
    commands = set(re.findall(r"redis\.call\(\s*'(\w+)'", path.read_text()))
    assert commands.isdisjoint({"KEYS", "SCAN", "HSCAN", "ZSCAN", "SSCAN", "TIME", "RANDOMKEY"})


def test_the_keys_of_a_store_lie_together_on_a_cluster() -> None:
    keys = name_keys("shop")
    named = [keys.schema, *keys.documents, *keys.jobs, keys.stream]
    assert {key.partition("}")[0] for key in named} == {"{shop"}
    assert len(set(named)) == len(DOCUMENT_KEYS) + len(JOB_KEYS) + 2


def test_included_parts_replace_their_uses_lines() -> None:
    script = load_script("lease")
    parts = (
        *("-- lease: lease due jobs", "-- uses    ready", "-- uses    heads"),
        *("local function partition_of(", "local function mark_due(", "local function open_part("),
    )
    places = [script.text.index(part) for part in parts]
    assert places == sorted(places)


def test_a_part_used_twice_is_included_once() -> None:
    script = load_script("next_due")
    assert script.text.count("-- uses    heads") == 2
    assert script.text.count("local function partition_of(") == 1
