"""The modules that a command imports before it starts."""

import ast
import gc
import subprocess
import sys
from pathlib import Path

import pytest

from regard.cli.main import COMMANDS
from regard.cli.streams import pause_collection
from regard.config.registry import Registry
from regard.models import catalog
from regard.tasks.catalog import TASKS
from tests.cli.command import environment
from tests.code.tree import SOURCE

IDLE = {
    "regard.runs.train",
    "regard.serve",
    "regard.experiments",
    "regard.hub.exports",
    "regard.hub",
}
HEAVY = {"torch", "numpy", "matplotlib", "accelerate", "tokenizers", "sacrebleu", "pydantic", "yaml", "einops"}


def modules(code: str, *arguments: str) -> set[str]:
    """What is loaded behind some Python in a fresh process, of which `sys.argv[1:]` is given."""
    command = [sys.executable, "-c", f"import sys; {code}; print(sorted(sys.modules))", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


def loaded(code: str) -> set[str]:
    """Of this the packages, and our commands."""
    return {name for name in modules(code) if "." not in name or name.startswith("regard.cli.")}


def test_a_command_loads_itself_alone():
    found = loaded("import regard.cli.main as m; assert m.main(['aer', '--help']) == 0")
    assert found & {f"regard.cli.{command.module}" for command in COMMANDS.values()} == {"regard.cli.evaluate"}


def test_every_command_is_a_function_of_its_name():
    for name, command in COMMANDS.items():
        tree = ast.parse((SOURCE / "cli" / f"{command.module}.py").read_text(encoding="utf-8"))
        assert name in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def test_a_run_is_loaded_without_what_trains_it():
    """What distributes weights over machines takes a second to load, and the means of training half of one."""
    found = loaded("import regard.hub.open_run")
    assert "torch" in found
    assert not found & {"accelerate", "huggingface_hub", "sympy", "matplotlib", "transformers"}


def test_an_answer_waits_for_its_own_task_and_model_alone(run: Path):
    predicting = "import regard.cli.main as m; assert m.main(['predict', *sys.argv[1:]]) == 0"
    found, bare = modules(predicting, str(run), "14 July 1989"), modules("import torch")
    assert found & rooms() == {"regard.tasks.seq2seq.config", "regard.tasks.seq2seq.run"}
    tables = (catalog.MODELS, catalog.CAPTIONERS, catalog.LANGUAGE_MODELS, catalog.CLASSIFIERS)
    assert found & {home for table in tables for home in places(table)} == {"regard.models.bahdanau"}
    assert not {name for name in found if "gpt2" in name}
    assert not found & {"accelerate", "matplotlib", "sacrebleu", "sympy", "transformers", "triton", *IDLE}
    more = {name for name in found - bare if name.split(".")[0] in ("torch", "torchgen", "functorch")}
    assert more <= {"torch.utils._device"}  # a hundred lines, for a model without storage


def places(table: Registry) -> set[str]:
    return {f"{table.package}.{home.split(':')[0]}" for home in table.locations.values()}


def rooms() -> set[str]:
    """The modules that tasks name as their parts."""
    tasks = TASKS.values()
    return {
        f"{t.package}.{p.partition(':')[0]}".rstrip(".")
        for t in tasks
        for p in (t.config_place, t.setup_place, t.run_place)
    }


def test_a_run_file_is_read_by_its_task_alone():
    reading = "from regard.runs import recipes, run_file; run_file.read(recipes.path_of(sys.argv[1]))"
    assert modules(reading, "sorting") & rooms() == {"regard.tasks.pointer"}


@pytest.mark.parametrize("searching", [True, False])
def test_loading_leaves_the_search_for_garbage_as_it_was(searching: bool):
    before = gc.isenabled()
    try:
        (gc.enable if searching else gc.disable)()
        with pause_collection():
            inside = gc.isenabled()
        assert (inside, gc.isenabled()) == (False, searching)
    finally:
        (gc.enable if before else gc.disable)()
        gc.unfreeze()
