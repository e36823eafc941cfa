"""What is in deploy/ fits what is in src/: commands, options and files are real."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped] # its stubs are not among the requirements
from tests.docs.pages import read_blocks

from rota.cli.commands import app
from rota.ops.queues import QueueLoad
from rota.server.api.queues import QUEUES

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "deploy/container"
DOCKERFILE = (CONTAINER / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((CONTAINER / "compose.yaml").read_text(encoding="utf-8"))
UNITS = sorted((ROOT / "deploy/systemd").glob("*.service"))
PROGRAM = "/opt/rota/bin/rota"
PAGE = ROOT / "docs/guide/deploying.md"


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments, lines joined."""
    joined = DOCKERFILE.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def arguments_of(wanted: str) -> list[str]:
    return [rest for word, rest in instructions() if word == wanted]


def check_command(words: list[str]) -> None:
    """A command line that rota understands; nothing is run."""
    command, _, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert command.__name__ == words[0]


def read_unit(path: Path) -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            settings.setdefault(name, []).append(value)
    return settings


def page_commands() -> list[str]:
    """The commands on the page about deploying, which change a host and so are not run."""
    shown = [block.text for block in read_blocks(PAGE) if block.language == "text"]
    return [line for text in shown for line in text.splitlines()]


def test_a_command_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(Exception, match="--no-such-option"):
        check_command(["serve", "--no-such-option", "7"])


def test_the_image_runs_a_command_of_rota() -> None:
    (entry,), (command,) = arguments_of("ENTRYPOINT"), arguments_of("CMD")
    assert yaml.safe_load(entry) == ["rota"]
    check_command(yaml.safe_load(command))


def test_the_image_copies_what_there_is_and_what_is_not_ignored() -> None:
    sent = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for rest in arguments_of("COPY")
        if not rest.startswith("--from")
        for source in rest.split()[:-1]
    }
    assert copied == sent
    assert [name for name in sorted(copied) if not (ROOT / name).exists()] == []


def test_the_image_installs_only_what_is_known_by_its_hash() -> None:
    installs = [rest for rest in arguments_of("RUN") if "pip install" in rest]
    assert "--require-hashes" in installs[0]
    assert "requirements/runtime.txt" in installs[0]
    assert all("--no-deps" in rest for rest in installs[1:])


def test_the_image_runs_unprivileged_and_has_a_health_check() -> None:
    last_stage = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER 10001$", last_stage, re.MULTILINE)
    assert "/health/live" in last_stage
    assert "HEALTHCHECK" in last_stage


@pytest.mark.parametrize("name", ["serve", "work"])
def test_a_container_runs_a_command_of_rota_and_nothing_else(name: str) -> None:
    service = COMPOSE["services"][name]
    check_command(service["command"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert (CONTAINER / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).exists()


def test_no_password_is_in_the_compose_file() -> None:
    database = COMPOSE["services"]["db"]["environment"]
    assert database["POSTGRES_PASSWORD"].startswith("${ROTA_DB_PASSWORD:?")
    for name in ("serve", "work"):
        environment = COMPOSE["services"][name]["environment"]
        assert environment["PGPASSWORD"].startswith("${ROTA_DB_PASSWORD:?")
        assert "@db/" in environment["ROTA_STORE"]
        assert ":" not in environment["ROTA_STORE"].partition("//")[2]


def test_podman_compose_can_read_the_compose_file() -> None:
    """It refuses secrets that come from the environment."""
    secrets = COMPOSE.get("secrets", {}).values()
    assert [secret for secret in secrets if "environment" in secret] == []


@pytest.mark.parametrize("name", COMPOSE["services"])
def test_a_container_is_given_time_to_stop(name: str) -> None:
    """Without the setting, podman kills what Docker Compose stops."""
    grace = COMPOSE["services"][name]["stop_grace_period"]
    assert int(grace.removesuffix("s")) > 30  # longer than a worker's grace


def test_the_service_is_published_on_this_host_only() -> None:
    assert COMPOSE["services"]["serve"]["ports"] == ["127.0.0.1:8080:8080"]
    assert "ports" not in COMPOSE["services"]["db"]
    assert COMPOSE["services"]["db"]["networks"] == ["inside"]
    assert COMPOSE["networks"]["inside"] == {"internal": True}


def test_keda_reads_a_number_of_an_endpoint_and_starts_a_command_of_rota() -> None:
    text = (ROOT / "deploy/keda/rota-work.yaml").read_text(encoding="utf-8")
    deployment, _, scaled = yaml.safe_load_all(text)
    pod = deployment["spec"]["template"]["spec"]
    check_command(pod["containers"][0]["args"])
    assert pod["terminationGracePeriodSeconds"] > 30  # longer than a worker's grace
    (trigger,) = scaled["spec"]["triggers"]
    path = urlsplit(trigger["metadata"]["url"]).path
    assert path.replace("/default/", "/{queue}/") in {it.path for it in QUEUES.routes}
    assert trigger["metadata"]["valueLocation"] in QueueLoad.__struct_fields__


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_runs_a_command_of_rota_and_may_do_little(path: Path) -> None:
    unit = read_unit(path)
    program, *words = shlex.split(unit["ExecStart"][0])
    assert program == PROGRAM
    check_command(words)
    for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "PrivateDevices"):
        assert unit[name] == ["yes"]
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["CapabilityBoundingSet"] == [""]
    assert int(unit["TimeoutStopSec"][0]) > 30  # longer than a worker's grace


def test_the_page_names_files_and_units_that_exist() -> None:
    words = [word for line in page_commands() for word in shlex.split(line)]
    files = [word for word in words if word.startswith(("deploy/", "requirements/"))]
    assert len(files) > 3
    assert [name for name in files if not (ROOT / name).exists()] == []
    enabled = [line.partition("--now ")[2].split() for line in page_commands()]
    units = {re.sub(r"@\d+$", "@", name) for names in enabled for name in names}
    assert units == {path.stem for path in UNITS}


def test_the_page_shows_commands_that_rota_understands() -> None:
    called = [re.search(r"\brota (tokens .*)$", line) for line in page_commands()]
    commands = [shlex.split(found[1]) for found in called if found]
    assert len(commands) == 3
    for words in commands:
        app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_understands_a_unit(path: Path, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed: units are not verified")
    name = path.name.replace("@.", "@1.")
    text = path.read_text(encoding="utf-8").replace(PROGRAM, "/bin/true")
    (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [analyze, "verify", str(tmp_path / name)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count(name)) == (0, 0), done.stderr
