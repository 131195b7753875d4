"""Processes forked from one that has imported what they need, so that none waits for it. As a script, that one:
`python -m tests.forked SOCKET`, which has an end of a pair of sockets.

A command starts here as `python -m regard` does, and code as `python -c`, with its own environment, folder and pipes.
What a test says of the start itself, such as what it imports, needs an interpreter of its own.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO, cast

from tests.code.tree import ROOT, SOURCE

STREAMS = ("stdin", "stdout", "stderr")
FREQUENT = (
    *(
        "regard.cli.main",
        "regard.cli.train",
        "regard.cli.predict",
        "regard.cli.evaluate",
        "regard.tasks.seq2seq.training",
    ),
    *("regard.models.bahdanau", "accelerate", "cyclopts", "torch._dynamo", "torch.distributed.fsdp"),
    *("torch.utils.tensorboard", "torch.onnx", "onnxscript"),
)


class Forked:
    """A running process, `-m regard ...` or `-c CODE`, with the interface of `subprocess.Popen` that the tests use."""

    def __init__(self, arguments: Sequence[str], env: dict[str, str], cwd: Any = None, **files: Any) -> None:
        self.args, self.returncode, own, theirs = arguments, None, {}, []
        for name in STREAMS:
            file = files[name]
            if file == subprocess.PIPE:
                ends = os.pipe()
                far, near = ends if name == "stdin" else ends[::-1]
                own[name] = os.fdopen(near, "w" if name == "stdin" else "r", encoding="utf-8")
            elif file == subprocess.DEVNULL:
                far = os.open(os.devnull, os.O_RDWR)
            else:
                far = os.dup(file if isinstance(file, int) else file.fileno())
            theirs.append(far)
        self.stdin, self.stdout, self.stderr = (own.get(name) for name in STREAMS)
        status, far = os.pipe()
        self.status: TextIO = os.fdopen(status)
        request = {"arguments": arguments, "env": env, "cwd": str(cwd or Path.cwd())}
        socket.send_fds(server(), [json.dumps(request).encode()], [*theirs, far])
        for each in (*theirs, far):
            os.close(each)
        self.pid = int(self.status.readline())

    def poll(self) -> int | None:
        ready = self.returncode is None and select.select([self.status], [], [], 0)[0]
        return self.wait() if ready else self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self.status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = os.waitstatus_to_exitcode(int(self.status.readline()))
            self.status.close()
        return self.returncode

    def communicate(self, text: str | None = None, timeout: float | None = None) -> tuple[str, str]:
        found = {}

        def read(name: str, stream: TextIO) -> None:
            with stream:
                found[name] = stream.read()

        streams = {name: each for name, each in (("stdout", self.stdout), ("stderr", self.stderr)) if each is not None}
        threads = [threading.Thread(target=read, args=each) for each in streams.items() if not each[1].closed]
        for thread in threads:
            thread.start()
        if self.stdin is not None and not self.stdin.closed:
            try:
                with self.stdin:
                    self.stdin.write(text or "")
            except BrokenPipeError:
                pass  # as subprocess does: the command has ended without reading all
        self.wait(timeout)
        for thread in threads:
            thread.join()
        return found.get("stdout", ""), found.get("stderr", "")

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may have ended since, and its parent is another process
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *error: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()


def start(arguments: Sequence[str], env: dict[str, str], **options: Any) -> "subprocess.Popen[str]":
    """`-m regard ...` or `-c CODE` with pipes for the streams that are not given; forked where this system can watch
    processes that are not its own, the interpreter would be the same, and no option is one of `subprocess.Popen`'s
    only."""
    given = {**dict.fromkeys(STREAMS, subprocess.PIPE), **options}
    forks = hasattr(os, "pidfd_open") and given.keys() <= {"cwd", *STREAMS} and subprocess.STDOUT not in given.values()
    if forks and read_at_start(env) == read_at_start(os.environ):
        return cast("subprocess.Popen[str]", Forked(arguments, env, **given))
    return fresh(arguments, env, **given)


def fresh(arguments: Sequence[str], env: dict[str, str], **options: Any) -> "subprocess.Popen[str]":
    """As `start`, in an interpreter of its own."""
    given = {**dict.fromkeys(STREAMS, subprocess.PIPE), **options}
    return subprocess.Popen([sys.executable, *arguments], env=env, text=True, encoding="utf-8", **given)


def together(count: int, arguments: Sequence[str], env: dict[str, str]) -> list[tuple[int, str, str]]:
    """Processes of one command as a launcher starts them on a machine: exit code, output and errors of each."""
    port = free_port()
    processes = [start(arguments, {**env, **launched(rank, count, port)}) for rank in range(count)]
    with ThreadPoolExecutor(count) as pool:
        written = list(pool.map(lambda each: each.communicate(timeout=300), processes))
    return [(each.returncode, *both) for each, both in zip(processes, written, strict=True)]


def launched(rank: int, count: int, port: int) -> dict[str, str]:
    """The variables that `torch.distributed.run` gives to a process, by which they find each other."""
    own, all_of_them = dict.fromkeys(("RANK", "LOCAL_RANK"), str(rank)), str(count)
    shared = {"WORLD_SIZE": all_of_them, "LOCAL_WORLD_SIZE": all_of_them, "MASTER_ADDR": "127.0.0.1"}
    return {**own, **shared, "MASTER_PORT": str(port)}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables that count when an interpreter or PyTorch starts only."""
    names = ("PYTHON", "OMP_", "MKL_", "TORCH")
    return {name: value for name, value in variables.items() if name.startswith(names) and name != "PYTHONPATH"}


@cache
def server() -> socket.socket:
    """This process's end of the pair, whose other end has one process that lives as long."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.forked", str(theirs.fileno())]
    environment = {**os.environ, "PYTHONPATH": f"{SOURCE.parent}{os.pathsep}{ROOT}"}
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
    process.returncode = 0  # it ends with this process, and nobody waits for it
    theirs.close()
    atexit.register(ours.close)
    return ours


def serve(connection: socket.socket) -> None:
    """Fork a command for each request, and report its process and how it ends, until the other end is closed."""
    running: dict[int, tuple[int, int]] = {}
    while True:
        for ready in select.select([connection, *running], [], [])[0]:
            if isinstance(ready, int):
                process, status = running.pop(ready)
                os.write(status, f"{os.waitpid(process, 0)[1]}\n".encode())
                os.close(status)
                os.close(ready)
                continue
            data, files, _, _ = socket.recv_fds(connection, 1 << 20, 4)
            if not data:
                return
            process = os.fork()
            if not process:
                connection.close()
                return run(json.loads(data), files)
            for each in files[:3]:
                os.close(each)
            os.write(files[3], f"{process}\n".encode())
            running[os.pidfd_open(process)] = process, files[3]


def run(request: dict[str, Any], files: list[int]) -> None:
    """The command or the code in this process, which ends with it."""
    for number, each in enumerate(files[:3]):
        os.dup2(each, number)
    os.closerange(3, max(files) + 64)
    os.environ.clear()
    os.environ.update(request["env"])
    paths = [path for path in request["env"].get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    sys.path[1:1] = paths
    os.chdir(request["cwd"])
    sys.stdin = os.fdopen(0, encoding="utf-8")
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace")
    option, what, *arguments = request["arguments"]
    sys.argv = [what if option == "-m" else option, *arguments]
    if option == "-c":
        exec(what, {"__name__": "__main__"})
        sys.exit(0)
    sys.exit(import_module("regard.cli.main").main(arguments))


if __name__ == "__main__":
    for name in FREQUENT:
        if find_spec(name.partition(".")[0]) is not None:  # an extra may be missing
            import_module(name)
    serve(socket.socket(fileno=int(sys.argv[1])))
