"""What a command has to load before it can begin."""

import ast
import subprocess
import sys

import pytest

from regard.cli.main import COMMANDS
from tests.cli.command import environment
from tests.code.tree import SOURCE

LISTED = "; print(sorted(name for name in sys.modules if '.' not in name or name.startswith('regard.cli.')))"
HEAVY = {"torch", "numpy", "matplotlib", "accelerate", "tokenizers", "sacrebleu", "pydantic", "yaml", "einops"}


def loaded(code: str) -> set[str]:
    """The packages, and our commands, that are loaded behind some Python in a fresh process."""
    command = [sys.executable, "-c", f"import sys; {code}{LISTED}"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_load_nothing_heavy(argument: str):
    found = loaded(f"import regard.cli.main as m; assert m.main([{argument!r}]) == 0")
    assert "cyclopts" in found
    assert not found & HEAVY


def test_a_command_loads_itself_alone():
    found = loaded("import regard.cli.main as m; assert m.main(['aer', '--help']) == 0")
    assert found & {f"regard.cli.{name}" for name in COMMANDS} == {"regard.cli.aer"}


def test_every_command_is_a_function_of_its_name():
    for name in COMMANDS:
        tree = ast.parse((SOURCE / "cli" / f"{name}.py").read_text(encoding="utf-8"))
        assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_a_run_is_loaded_without_what_trains_it():
    """What distributes weights over machines takes a second to load, and the means of training half of one."""
    found = loaded("import regard.runs")
    assert "torch" in found
    assert not found & {"accelerate", "sympy", "matplotlib", "transformers"}
