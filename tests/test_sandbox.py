"""What a user's reward file may do: return a number. Nothing else gets out, and nothing ends the process that asks."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewards.sandbox import Sandbox, SandboxError

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(source: str) -> Path:
        path = tmp_path / "reward.py"
        path.write_text(source, "utf-8")
        return path

    return written


def body(code: str, imports: str = "") -> str:
    lines = "\n".join("    " + line for line in code.splitlines())
    return f"{imports}\ndef cal_reward(payload):\n{lines}\n"


CANARY = "canary-7c1f"
# Each would return 1 where it got out. {path}: a file outside with CANARY in it. {port}: one that nobody may reach.
ESCAPES = [
    body("return float(CANARY in open('{path}').read())", "CANARY = 'canary-7c1f'"),
    body("return float(b'canary' in os.read(os.open('{path}', os.O_RDONLY), 99))", "import os"),
    body("return float('canary' in pathlib.Path('{path}').read_text())", "import pathlib"),
    body("return float(len(os.listdir('/')) > 0)", "import os"),
    body("return float(len(os.listdir('..')) > 0)", "import os"),
    body("os.chdir('/'); return float(len(os.listdir('.')) > 0)", "import os"),
    body("os.chroot('..'); return 1.0", "import os"),
    body("os.mkdir('x'); os.chroot('x'); os.chdir('../../..'); return float(len(os.listdir('.')) > 0)", "import os"),
    body("open('{path}', 'w').write('x'); return 1.0"),
    body("open('new', 'w').write('x'); return 1.0"),
    body("os.remove('{path}'); return 1.0", "import os"),
    body("os.symlink('{path}', 'l'); return 1.0", "import os"),
    body("return float('SECRET' in os.environ)", "import os"),
    body("return float(b'SECRET' in open('/proc/self/environ', 'rb').read())"),
    body("return float(len(os.environ) > 0)", "import os"),
    body("return float(os.getuid() == 0)", "import os"),
    body("os.setuid(0); return 1.0", "import os"),
    body("os.setresuid(0, 0, 0); return 1.0", "import os"),
    body("socket.create_connection(('127.0.0.1', {port}), 1); return 1.0", "import socket"),
    body(
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('192.0.2.1', 53)); return 1.0",
        "import socket",
    ),
    body("return float(bool(socket.gethostbyname('localhost.test')))", "import socket"),
    body("socket.socket(socket.AF_UNIX).connect('/run/x'); return 1.0", "import socket"),
    body("urllib.request.urlopen('http://127.0.0.1:{port}', timeout=1); return 1.0", "import urllib.request"),
    body("subprocess.run(['/bin/true'], check=True); return 1.0", "import subprocess"),
    body("return float(os.system('true') == 0)", "import os"),
    body("os.execv('/bin/true', ['true'])", "import os"),
    body("return float(os.fork() >= 0)", "import os"),
    body("os.posix_spawn('/bin/true', ['true'], {{}}); return 1.0", "import os"),
    body("multiprocessing.Process(target=print).start(); return 1.0", "import multiprocessing"),
    body("threading.Thread(target=print).start(); return 1.0", "import threading"),
    body("os.kill(1 if os.getpid() != 1 else -1, 9); return 1.0", "import os"),
    body("os.kill(os.getppid() or {pid}, 9); return 1.0", "import os"),
    body("os.kill({pid}, 9); return 1.0", "import os"),
    body("return float(ctypes.CDLL(None).unshare(0x40000000) == 0)", "import ctypes"),
    body("return float(ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) == 0)", "import ctypes"),
    body("return float(ctypes.CDLL(None).mount(b'none', b'/', b'tmpfs', 0, 0) == 0)", "import ctypes"),
    body("resource.setrlimit(resource.RLIMIT_AS, (-1, -1)); return 1.0", "import resource"),
    body("resource.setrlimit(resource.RLIMIT_NPROC, (99, 99)); return 1.0", "import resource"),
    body("os.mknod('n'); return 1.0", "import os"),
    body("return float(len(__import__('glob').glob('/*')) > 0)", "import glob"),
]
# Each comes to no good end of its own; the asking process gets None and a reason.
DEAD_ENDS = [
    body("while True: pass"),
    body("import time\ntime.sleep(60)", "import time"),
    body("os._exit(0)", "import os"),
    body("raise SystemExit"),
    body("raise KeyboardInterrupt"),
    body("os.abort()", "import os"),
    body("ctypes.string_at(0)", "import ctypes"),
    body("signal.raise_signal(signal.SIGTERM); return 'x'", "import signal"),
    body("return bytearray(4 * 2**30) and 1"),
    body("x = []\nwhile True: x.append('x' * 10**6)"),
    body("return 10 ** 10 ** 8 and 'x'"),
    body("return float('nan')"),
    body("return float('inf')"),
    body("return -float('inf')"),
    body("return True"),
    body("return '1.0'"),
    body("return None"),
    body("return [1.0]"),
    body("return 10 ** 400"),
    body("return 1 / 0"),
    body("raise BaseException('x' * 10**6)"),
    body("return cal_reward(payload)"),
    body("class E(Exception):\n    def __str__(self): raise ValueError\nraise E()"),
    body("sys.stdout.write('x' * 10**7); return 'x'", "import sys"),
    body("os.write(1, b'x' * 10**6); return 'x'", "import os"),
    body("os.closerange(0, 64); return 'x'", "import os"),
    body("sys.stdin.close(); return 'x'", "import sys"),
]


GOOD = """
_bad = cal_reward
def cal_reward(payload):
    return 0.5 if payload == 'good' else _bad(payload)
"""


def test_there_are_enough_of_them() -> None:
    assert len({*ESCAPES, *DEAD_ENDS}) == len(ESCAPES) + len(DEAD_ENDS) >= 50


@pytest.mark.parametrize("number", range(len(ESCAPES)))
def test_nothing_gets_out(number: int, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text(CANARY, "utf-8")
    outside.chmod(0o644)
    monkeypatch.setenv("SECRET", CANARY)
    source = ESCAPES[number].replace("{path}", str(outside)).replace("{port}", "9").replace("{pid}", str(os.getpid()))
    with Sandbox(write(source.replace("{{}}", "{}")), wall_seconds=2.0) as sandbox:
        if "no files" not in sandbox.layers:
            pytest.skip(f"this machine allows only: {', '.join(sandbox.layers)}")
        answer = sandbox.score("{}")
    assert answer.value in (None, 0.0), answer
    assert outside.read_text("utf-8") == CANARY
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("number", range(len(DEAD_ENDS)))
def test_no_number_is_none_with_a_reason_and_the_next_payload_is_asked(number: int, write: Write) -> None:
    source = DEAD_ENDS[number] + GOOD
    with Sandbox(
        write(source.replace("return cal_reward(payload)", "return _bad(payload)")), wall_seconds=0.5
    ) as sandbox:
        answer = sandbox.score("bad")
        assert answer.value is None and 0 < len(answer.reason) < 300
        assert sandbox.score("good").value == 0.5
        assert sum(sandbox.refused.values()) == 1


@pytest.mark.parametrize("number", ["1", "2", "3", "99"])
def test_an_answer_that_nobody_asked_for_is_not_taken_for_another_payloads(number: str, write: Write) -> None:
    """The file writes to every descriptor that it finds, with the number of a request to come."""
    line = f'{{"number": {number}, "value": 0.1}}'
    code = "for fd in range(3, 16):\n    try: os.write(fd, b'LINE\\n' * 3)\n    except OSError: pass\nreturn 0.2"
    source = body(code.replace("LINE", line), "import os") + GOOD
    with Sandbox(write(source), wall_seconds=1.0) as sandbox:
        for _ in range(5):
            sandbox.score("bad")
            assert sandbox.score("good").value == 0.5


def test_a_file_that_does_not_come_up_again_gives_none_and_raises_nothing(write: Write) -> None:
    path = write(body("os._exit(0)", "import os"))
    with Sandbox(path, wall_seconds=1.0) as sandbox:
        assert sandbox.score("{}").value is None
        path.write_text("raise ValueError('gone')", "utf-8")
        answer = sandbox.score("{}")
        assert answer.value is None and "could not be started again" in answer.reason
        path.unlink()
        assert sandbox.score("{}").value is None


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1", "KeyError: 'cal_reward'"),
        ("def cal_reward(:", "SyntaxError"),
        ("raise ValueError('no')", "ValueError: no"),
        ("import no_such_module\ndef cal_reward(p): return 1", "No module named 'no_such_module'"),
        ("import os\nos._exit(0)", "did not come up"),
    ],
)
def test_a_file_without_a_reward_is_refused_at_once(source: str, said: str, write: Write) -> None:
    with pytest.raises(SandboxError, match=r"reward\.py") as caught:
        Sandbox(write(source))
    assert said in str(caught.value)


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no such file"):
        Sandbox(tmp_path / "nowhere.py")


def test_a_script_as_a_platform_hands_it_out_runs(write: Write) -> None:
    """With the line that pastes the payload into the source, which is taken off."""
    source = body("return json.loads(payload)['score']", "import json") + "print(cal_reward({{payload}}))\n"
    with Sandbox(write(source)) as sandbox:
        assert sandbox.score(json.dumps({"score": 0.25})).value == 0.25


@given(st.text(max_size=200))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_payload_is_an_argument_never_code(shared: Sandbox, text: str) -> None:
    payload = json.dumps({"input": text})
    assert shared.score(payload).value == float(len(payload))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    path = tmp_path_factory.mktemp("shared") / "reward.py"
    path.write_text("def cal_reward(payload):\n    return len(payload)\n", "utf-8")
    return Sandbox(path)


@pytest.mark.parametrize(
    "text",
    ["'''", '"""', "}}", "{{payload}}", "\\", "\n", "\r\n", "\u2028", "__import__('os')._exit(1)", "\ud800", "\0"],
)
def test_hostile_payloads_arrive_as_they_are(shared: Sandbox, text: str) -> None:
    payload = json.dumps({"input": text})
    assert shared.score(payload).value == float(len(payload))


@pytest.mark.slow
def test_nothing_is_left_behind(write: Write) -> None:
    sandbox = Sandbox(write(body("while True: pass")), wall_seconds=0.2)
    assert sandbox.score("{}").value is None
    process = sandbox._process
    sandbox.close()
    assert process is None and sandbox._process is None
    deadline = time.monotonic() + 5
    while any("sandbox_worker" in line for line in _command_lines()) and time.monotonic() < deadline:
        time.sleep(0.02)
    mine = [line for line in _command_lines() if str(sandbox.path) in line]
    assert mine == []


def _command_lines() -> list[str]:
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return lines
