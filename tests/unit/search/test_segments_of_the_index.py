"""Segments: numbers, blocks and places."""

from random import Random

import pytest

from rota.search import segments
from rota.search.segments import (
    Chunk,
    Place,
    build_segment,
    decode_head,
    decode_rows,
    encode_head,
    encode_numbers,
    find_rows,
    gather,
    list_encoded,
    list_numbers,
    unite,
)


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.3, 1.0])
def test_numbers_survive_their_encoding(share: float) -> None:
    count, chance = 20_000, Random(1)
    numbers = sorted(chance.sample(range(count), max(int(count * share), 1)))
    encoded = encode_numbers(numbers, count)
    assert list(list_encoded(encoded)) == numbers
    assert list(list_numbers(gather(numbers))) == numbers
    assert unite([("a", encoded)]) == gather(numbers)
    assert segments.count_encoded(encoded) == len(numbers)


def test_every_term_and_place_is_found_in_the_block_that_the_head_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(segments, "BLOCK_SIZE", 200)
    monkeypatch.setattr(segments, "CHUNK_LENGTH", 16)
    places = [Place(-number, f"id{number}") for number in range(100)]
    terms = {place: {f"t{-place.age:03}", "tall", f"u{-place.age % 7}"} for place in places}
    made = build_segment(terms)
    head = decode_head(encode_head(made.head))
    assert head == made.head
    assert (made.newest, made.oldest) == (places[-1], places[0])
    ordered = [place for block in made.blocks[:7] for place in Chunk(block)]
    assert ordered == sorted(places)
    for number, place in enumerate(ordered):
        assert place in Chunk(made.blocks[head.find_chunk(place)])
        assert _look_up(made, f"t{-place.age:03}") == {number}
    assert _look_up(made, "tall") == set(range(100))
    assert _look_up(made, "u3") == {n for n, place in enumerate(ordered) if -place.age % 7 == 3}
    assert len(_look_up(made, "t01", is_prefix=True)) == 10
    assert len(_look_up(made, "u", is_prefix=True)) == 100
    assert not _look_up(made, "a")
    assert not _look_up(made, "zz")
    assert not _look_up(made, "t0")


def _look_up(made: segments.Segment, text: str, *, is_prefix: bool = False) -> set[int]:
    found: set[int] = set()
    for block in made.head.find_blocks(text, is_prefix=is_prefix):
        for _, encoded in find_rows(decode_rows(made.blocks[block]), text, is_prefix=is_prefix):
            found |= set(list_encoded(encoded))
    return found
