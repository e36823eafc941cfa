"""What only a process of its own can show: pipes, signals, terminals and what is loaded."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

ROTA = str(Path(sys.executable).with_name("rota"))
LISTING = ("cron", "next", "0 9 * * 1-5", "--zone", "Europe/London", "--from", "2027-03-26")


def start(*argv: str, **options: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "TZ": "Europe/London", **options}
    return subprocess.run(
        [ROTA, *argv], capture_output=True, check=False, timeout=60, env=environment
    )


def on_a_terminal(*argv: str, **options: str) -> str:
    """What the command writes to a terminal."""
    ours, theirs = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", **options}
    with subprocess.Popen([ROTA, *argv], stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        written = b""
        try:
            while chunk := os.read(ours, 65536):
                written += chunk
        except OSError:  # how Linux says that the other end was closed
            pass
        process.wait(timeout=60)
    os.close(ours)
    return written.decode()


def test_a_pipe_gets_plain_text() -> None:
    done = start(*LISTING)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout
    assert b"1  Fri 2027-03-26 09:00 +00:00  2027-03-26 09:00Z  9h\n" in done.stdout


def test_python_m_rota_is_the_same_program() -> None:
    module = [sys.executable, "-m", "rota", "cron", "next", "every day"]
    done = subprocess.run(module, capture_output=True, check=False, timeout=60)
    expected = start("cron", "next", "every day")
    assert (done.returncode, done.stderr) == (expected.returncode, expected.stderr)
    assert done.returncode != 0


def test_characters_outside_the_encoding_are_escaped() -> None:
    gap = ("cron", "next", "30 1 * * *", "--zone", "Europe/London", "--from", "2027-03-28")
    done = start(*gap, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"clocks go forward 01:00 \\u2192 02:00\n" in done.stdout
    assert start("--help", PYTHONIOENCODING="ascii").stdout.isascii()


def test_the_hosts_zone_is_found() -> None:
    assert b"\nEurope/London, after " in start("cron", "next", "* * * * *").stdout


def test_standard_input_is_checked() -> None:
    done = subprocess.run(
        [ROTA, "cron", "check", "-"],
        input=b"0 9 * * 1 x\n\xff * * * * y\r\n",
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert b"-:2:1: minute field " in done.stdout
    assert b"\n  \\udcff * * * * y\n  ^^^^^^\n" in done.stdout
    assert done.stdout.endswith(b"\n-: 2 lines, 2 schedules, 1 problem\n")


def test_a_closed_pipe_prints_no_traceback() -> None:
    with subprocess.Popen(
        [ROTA, "cron", "next", "* * * * *", "--count", "3000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
@pytest.mark.parametrize("count", ["1", "5000"])
def test_unwritable_output_prints_no_traceback(count: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [ROTA, "cron", "next", "* * * * *", "-n", count],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert done.returncode == 74
    assert done.stderr == b"error: the output cannot be written: No space left on device\n"


def test_an_interruption_prints_no_traceback() -> None:
    with subprocess.Popen(
        [ROTA, "cron", "check", "-"], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        # Once a pipe's worth of lines is accepted, the command must be reading.
        process.stdin.write(b"0 9 * * 1 x\n" * 20_000)
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 130


def test_a_terminal_gets_colours_unless_disabled() -> None:
    problem = ("cron", "next", "61 * * * *")
    assert "\x1b[1;31merror: " in on_a_terminal(*problem)
    assert "\x1b[1;31m" not in on_a_terminal(*problem, NO_COLOR="1")
    assert "error: " in on_a_terminal(*problem, NO_COLOR="1")


def test_nothing_is_cut_at_80_columns() -> None:
    shown = on_a_terminal(*LISTING, COLUMNS="80", NO_COLOR="1", TERM="dumb")
    assert "2  Mon 2027-03-29 09:00 +01:00  2027-03-29 08:00Z  3d 8h" in shown


@pytest.mark.parametrize("command", ["tasks", "jobs"])
def test_without_the_extra_a_command_says_what_to_install(command: str, tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['httpx2'] = None; "
        "from rota.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, command, "list"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (69, b"")
    assert done.stderr.decode() == (
        "error: Commands of the service need httpx2, which is not installed: "
        "pip install 'rota[server]'\n"
    )
    assert list(tmp_path.iterdir()) == []
