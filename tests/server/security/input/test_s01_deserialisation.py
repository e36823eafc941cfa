"""S1: what is read is JSON; no text or bytes from outside become code."""

import ast

import pytest
from tests.architecture import reading, source_tree
from tests.server.security.conftest import Stage


def test_nothing_in_the_tree_reads_bytes_into_objects_or_runs_text() -> None:
    """No pickle, marshal, shelve, eval, exec, yaml.load or shell."""
    found = {
        module.path: reading.forbidden_calls(module.tree) for module in source_tree.source_modules()
    }
    assert {path: calls for path, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    "code",
    ["import pickle", "from marshal import loads", "eval(x)", "yaml.load(x)", "run(x, shell=True)"],
)
def test_the_search_finds_each_of_them(code: str) -> None:
    assert reading.forbidden_calls(ast.parse(code))


def test_only_what_the_operator_names_is_imported_by_name() -> None:
    """``import_module`` is for references on a command line, and for rota's own fixed names.

    A child process imports the module of the function that its worker has registered.
    """
    users = [m.path for m in source_tree.source_modules() if "import_module" in m.text]
    assert users == [
        "src/rota/__init__.py",
        "src/rota/app.py",
        "src/rota/django/__init__.py",
        "src/rota/kinds/__init__.py",
        "src/rota/lazy.py",
        "src/rota/runtime/observation.py",
        "src/rota/runtime/user_modules.py",
        "src/rota/stores/statements.py",
        "src/rota/worker/child.py",
    ]


@pytest.mark.parametrize(
    "kind", ["os.system", "rota.worker:Worker", "../../etc/passwd", "a;b", "é"]
)
async def test_the_kind_of_a_job_is_a_word_and_never_a_path_to_code(
    stage: Stage, kind: str
) -> None:
    """Text that looks like one is only the name of an unregistered handler."""
    client = await stage.sign_up()
    answer = await client.post("/api/v1/jobs", json={"name": "x", "queue": "q", "kind": kind})
    if answer.status_code == 201:
        assert answer.json()["kind"] == kind
    else:
        assert answer.json()["details"]["field"] == "kind"


@pytest.mark.parametrize(
    "media",
    ["application/x-yaml", "application/x-python-pickle", "text/xml", "application/msgpack", ""],
)
async def test_no_other_format_is_read(stage: Stage, media: str) -> None:
    client = await stage.sign_up()
    headers = {"content-type": media} if media else {}
    answer = await client.post("/api/v1/jobs", content=b"!!python/object:x {}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
