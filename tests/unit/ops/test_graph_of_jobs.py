"""What a job depends on and what depends on it."""

from datetime import UTC, datetime

import pytest

from rota.errors import InvalidInputError, JobNotFoundError
from rota.ops.graph import draw_graph
from rota.stores.memory import MemoryStore
from rota.testing import a_job

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


async def test_every_branch_is_found_and_says_what_it_is_to_the_job(store: MemoryStore) -> None:
    root, aside = a_job(), a_job()
    middle = a_job(dependencies=[root.id])
    beside = a_job(dependencies=[root.id])
    leaf = a_job(dependencies=[middle.id, aside.id])
    below = a_job(dependencies=[leaf.id])
    stranger = a_job()
    await store.insert([root, aside, middle, beside, leaf, below, stranger], NOW)
    graph = await draw_graph(store, "default", middle.id)
    found = {node.id: (node.level, node.relation) for node in graph.nodes}
    assert found == {
        root.id: (-1, "before"),
        middle.id: (0, "self"),
        aside.id: (0, "beside"),
        beside.id: (0, "beside"),
        leaf.id: (1, "after"),
        below.id: (2, "after"),
    }
    edges = {(edge.dependency_id, edge.dependent_id) for edge in graph.edges}
    assert edges == {
        (root.id, middle.id),
        (root.id, beside.id),
        (middle.id, leaf.id),
        (aside.id, leaf.id),
        (leaf.id, below.id),
    }
    assert not graph.is_cut


async def test_ancestors_and_descendants_come_before_other_branches(store: MemoryStore) -> None:
    root = a_job()
    others = [a_job(dependencies=[root.id]) for _ in range(20)]
    job = a_job(dependencies=[root.id])
    below = a_job(dependencies=[job.id])
    await store.insert([root, *others, job, below], NOW)
    graph = await draw_graph(store, "default", job.id, limit=5)
    assert {root.id, job.id, below.id} < {node.id for node in graph.nodes}
    assert (graph.count("beside"), graph.is_cut) == (2, True)


async def test_a_diamond_is_drawn_once(store: MemoryStore) -> None:
    top = a_job()
    sides = [a_job(dependencies=[top.id]) for _ in range(2)]
    bottom = a_job(dependencies=[side.id for side in sides])
    await store.insert([top, *sides, bottom], NOW)
    for asked in (top, bottom):
        graph = await draw_graph(store, "default", asked.id)
        assert len(graph.nodes) == 4
        assert len(graph.edges) == 4


async def test_a_large_graph_is_cut_and_says_so(store: MemoryStore) -> None:
    top = a_job()
    children = [a_job(dependencies=[top.id]) for _ in range(30)]
    await store.insert([top, *children], NOW)
    graph = await draw_graph(store, "default", top.id, limit=10)
    assert (len(graph.nodes), graph.is_cut) == (10, True)
    assert not (await draw_graph(store, "default", top.id, limit=31)).is_cut
    child = await draw_graph(store, "default", children[0].id, limit=1)
    assert (len(child.nodes), child.is_cut) == (1, True)


async def test_a_long_chain_is_walked_without_recursion(store: MemoryStore) -> None:
    chain = [a_job()]
    for _ in range(150):
        chain.append(a_job(dependencies=[chain[-1].id]))
    await store.insert(chain, NOW)
    graph = await draw_graph(store, "default", chain[75].id)
    assert (len(graph.nodes), len(graph.edges), graph.is_cut) == (151, 150, False)


async def test_another_tenant_sees_nothing_and_a_bad_limit_is_refused(store: MemoryStore) -> None:
    job = a_job()
    await store.insert([job], NOW)
    with pytest.raises(JobNotFoundError):
        await draw_graph(store, "other", job.id)
    with pytest.raises(InvalidInputError, match="limit"):
        await draw_graph(store, "default", job.id, limit=1_001)
