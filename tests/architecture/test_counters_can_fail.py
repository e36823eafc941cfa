"""Each check is given something bad, so that a green run means the checks were looking."""

import ast
import textwrap
from collections.abc import Callable

import pytest
from tests.architecture import counting, portability, reading, test_sizes
from tests.architecture.source_tree import Module


def _tree(text: str) -> ast.Module:
    return ast.parse(textwrap.dedent(text))


def test_a_function_is_as_long_as_its_lines_without_the_docstring() -> None:
    tree = _tree('''
        def f():
            """One.

            Two.
            """
            a = 1
            return a
    ''')
    assert [count.number for count in counting.function_lengths(tree)] == [3]


def test_a_nested_function_counts_for_itself_and_for_the_one_around_it() -> None:
    tree = _tree("def f():\n    def g():\n        return 1\n    return g\n")
    lengths = {count.name: count.number for count in counting.function_lengths(tree)}
    assert lengths == {"f": 4, "g": 2}


@pytest.mark.parametrize(
    ("body", "depth"),
    [
        ("return 1", 0),
        ("if a:\n        return 1", 1),
        ("if a:\n        pass\n    elif b:\n        pass\n    elif c:\n        pass", 1),
        ("if a:\n        pass\n    else:\n        for b in c:\n            pass", 2),
        ("try:\n        pass\n    except E:\n        if a:\n            pass", 2),
        ("match a:\n        case 1:\n            while b:\n                pass", 2),
        ("with a:\n     for b in c:\n      if d:\n       while e:\n        pass", 4),
    ],
)
def test_nesting_is_counted_by_blocks(body: str, depth: int) -> None:
    tree = ast.parse(f"def f():\n    {body}\n")
    assert [count.number for count in counting.nesting_depths(tree)] == [depth]


def test_a_class_is_counted_by_its_public_methods() -> None:
    methods = "\n".join(f"    def m{number}(self): ..." for number in range(13))
    tree = ast.parse(f"class C:\n    def _hidden(self): ...\n{methods}\n")
    assert [count.number for count in counting.public_method_counts(tree)] == [13]


def test_a_constructor_is_counted_by_every_kind_of_parameter() -> None:
    tree = ast.parse("class C:\n    def __init__(self, a, /, b, *c, d, **e): ...\n")
    assert [count.number for count in counting.constructor_parameter_counts(tree)] == [5]


def test_long_functions_lower_the_share_of_short_ones() -> None:
    long = "def f():\n" + "    x = 1\n" * 20
    short = "def g(): ...\n"
    assert test_sizes.share_of_short_functions([Module("src/a.py", long + short)]) == 0.5


@pytest.mark.parametrize("path", ["src/rota/utils.py", "src/rota/types/a.py", "src/_common.py"])
def test_empty_module_names_are_found_at_any_depth(path: str) -> None:
    assert len(reading.empty_module_names(path)) == 1


def test_empty_class_names_are_found_as_words() -> None:
    tree = _tree("""
        class TaskManager: ...
        class BaseStore: ...
        class Baseline: ...
        class ServiceImpl: ...
    """)
    assert reading.empty_class_names(tree) == ["TaskManager", "BaseStore", "ServiceImpl"]


def test_empty_variable_names_are_found_wherever_a_name_is_given() -> None:
    tree = _tree("""
        def get_info(data, log): log.info(data)
        task_data: int = 1
        database = 2
    """)
    assert sorted(reading.empty_variable_names(tree)) == ["data", "get_info", "task_data"]


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (reading.type_checking_blocks, "if TYPE_CHECKING:\n    import a"),
        (reading.type_checking_blocks, "if typing.TYPE_CHECKING:\n    import a"),
        (reading.imports_inside_functions, "def f():\n    import a"),
        (reading.imports_inside_functions, "class C:\n    def f(self):\n        from a import b"),
        (reading.forbidden_calls, "import pickle"),
        (reading.forbidden_calls, "from marshal import loads"),
        (reading.forbidden_calls, "eval(text)"),
        (reading.forbidden_calls, "os.system(text)"),
        (reading.forbidden_calls, "yaml.load(text)"),
        (reading.forbidden_calls, "subprocess.run(text, shell=True)"),
    ],
)
def test_violations_are_found(look: Callable[[ast.Module], list[object]], text: str) -> None:
    assert len(look(ast.parse(text))) == 1


def test_allowed_code_passes() -> None:
    tree = _tree("""
        import re
        pattern = re.compile("a")
        run(["a"], shell=False)
    """)
    assert reading.forbidden_calls(tree) == []


def test_paths_of_one_machine_are_found() -> None:
    text = "see /ho" + "me/ann/a, /wo" + "rk/main and C:\\Us" + "ers\\ann; not ./home/a or a/root/b"
    assert len(portability.machine_paths(text)) == 3


def test_hosts_beyond_the_known_ones_are_found() -> None:
    text = "http" + "://user:word@packages.elsewhere/simple and https://docs.python.org/3/"
    assert portability.unknown_hosts(text) == ["packages.elsewhere"]


def test_requirements_without_version_or_hash_are_found() -> None:
    text = "a==1 \\\n    --hash=sha256:00\nb==2\nc>=3 --hash=sha256:00\n# d\n--index-url x\n"
    assert portability.unpinned_lines(text) == ["b==2", "c>=3", "--index-url"]
    assert portability.index_options(text) == ["--index-url"]


def test_folders_that_import_each_other_are_found() -> None:
    pair = [
        Module("src/rota/a/__init__.py", ""),
        Module("src/rota/a/one.py", "from rota.b.two import x\n"),
        Module("src/rota/b/__init__.py", "from rota.a import one\n"),
        Module("src/rota/b/two.py", "x = 1\n"),
    ]
    assert reading.folder_imports(pair) == {("rota.a", "rota.b"), ("rota.b", "rota.a")}
