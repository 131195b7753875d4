"""Help and version work, quickly, without anything else."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli.main import COMMANDS, main
from tests.cli.command import environment, finish, fresh, start
from tests.code.tree import SOURCE

FAKES = {
    "absent library": 'raise OSError("libtorch_cpu.so: cannot open shared object file")',
    "half installed": "from torch._C import nothing",
    "any error": 'raise RuntimeError("broken on purpose")',
}


@pytest.fixture(params=FAKES)
def broken_torch(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(FAKES[request.param], encoding="utf-8")
    return environment(PYTHONPATH=f"{tmp_path}{os.pathsep}{SOURCE.parent}")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"], ["recipes"]], ids=" ".join)
def test_works_with_a_broken_torch(arguments: list[str], broken_torch: dict[str, str]):
    code, output, errors = finish(fresh(*arguments, env=broken_torch))
    assert (code, errors) == (0, "")
    assert output.strip()


def test_a_broken_torch_is_told_in_one_line(broken_torch: dict[str, str]):
    code, output, errors = finish(fresh("predict", "somewhere", "text", env=broken_torch))
    assert (code, output, len(errors.splitlines())) == (1, "", 1)
    code, output, errors = finish(fresh("info", env=broken_torch))
    assert (code, errors) == (0, "")
    assert "torch cannot be imported" in output


def test_help_loads_nothing_heavy():
    code = "import sys, regard.cli.main as m; m.main(['--help']); m.main(['--version']); m.main(['recipes'])"
    heavy = "{'torch', 'accelerate', 'tokenizers', 'numpy', 'matplotlib', 'sacrebleu', 'pydantic'}"
    code += f"; loaded = {heavy} & set(sys.modules); assert not loaded, loaded"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_has_a_line_of_help_in_its_group():
    code, output, _ = finish(start("--help", env=environment(COLUMNS="80")))
    assert code == 0
    for name, command in COMMANDS.items():
        assert re.search(rf"│ {name.rstrip('_')} +{re.escape(command.summary)} +│", output), name
        assert f"─ {command.group} ─" in output
    assert max(map(len, output.splitlines())) <= 80


def test_the_line_of_a_command_begins_its_docstring():
    for name, command in COMMANDS.items():
        tree = ast.parse((SOURCE / "cli" / f"{command.module}.py").read_text(encoding="utf-8"))
        found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
        assert (ast.get_docstring(found[0]) or "").splitlines()[0] == command.summary


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_80_columns(name: str, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([name.rstrip("_"), "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith(f"Usage: regard {name.rstrip('_')}")
    assert COMMANDS[name].summary in map(str.rstrip, lines)


def test_closed_input():
    closing = [sys.executable, "-c", "import os, sys; os.close(0); os.execv(sys.executable, sys.argv[1:])"]
    done = subprocess.run(
        [*closing, sys.executable, "-m", "regard", "recipes"], env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
