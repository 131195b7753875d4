"""What is imported before a command starts, and help without anything else."""

import ast
import gc
import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

import regard
from regard import attention
from regard.attention import record as recording
from regard.cli.main import COMMANDS, main, pause_collection
from regard.config.loader import Registry
from regard.models import catalog
from regard.runs import run_file
from regard.tasks.catalog import TASKS
from tests.cli.command import environment, finish, fresh, start, tiny
from tests.code.tree import SOURCE

IDLE = {"regard.runs.train", "regard.serve", "regard.experiments", "regard.hub.exports", "regard.hub"}


def modules(code: str, *arguments: str) -> set[str]:
    """What is loaded behind some Python in a fresh process, of which `sys.argv[1:]` is given."""
    command = [sys.executable, "-c", f"import sys; {code}; print(sorted(sys.modules))", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    return set(ast.literal_eval(done.stdout.splitlines()[-1]))


def test_a_run_is_loaded_without_what_trains_it():
    """What distributes weights over machines takes a second to load, and the means of training half of one."""
    found = modules("import regard.hub.open_run, regard.pictures")
    assert "torch" in found
    assert not found & {"accelerate", "huggingface_hub", "sympy", "matplotlib", "transformers"}


def test_an_answer_waits_for_its_own_task_and_model_alone(run: Path):
    predicting = "import regard.cli.main as m; assert m.main(['predict', *sys.argv[1:]]) == 0"
    found, bare = modules(predicting, str(run), "14 July 1989"), modules("import torch")
    assert found & rooms() == {"regard.tasks.seq2seq.training"}
    tables = (catalog.MODELS, catalog.CAPTIONERS, catalog.LANGUAGE_MODELS, catalog.CLASSIFIERS)
    assert found & {home for table in tables for home in places(table)} == {"regard.models.bahdanau"}
    assert not {name for name in found if "gpt2" in name}
    assert not found & {"accelerate", "matplotlib", "sacrebleu", "sympy", "transformers", "triton", *IDLE}
    more = {name for name in found - bare if name.split(".")[0] in ("torch", "torchgen", "functorch")}
    assert more <= {"torch.utils._device"}  # a hundred lines, for a model without storage


@pytest.mark.parametrize("wrong", [["data.train=none.csv"], ["data.train={}", "data.text=body"]])
def test_a_wrong_file_or_column_is_said_before_pytorch_loads(wrong: list[str], tmp_path: Path):
    (tmp_path / "a.csv").write_text("text,label\na,1\n")
    settings = [each for line in wrong for each in ("--set", line.format(tmp_path / "a.csv"))]
    training = "import regard.cli.main as m; assert m.main(['train', *sys.argv[1:]]) == 2"
    assert not {"torch", "numpy"} & modules(training, "classify", *settings)


def places(table: Registry) -> set[str]:
    return {f"{table.package}.{home.split(':')[0]}" for home in table.locations.values()}


def rooms() -> set[str]:
    """The modules that have the tasks."""
    return places(TASKS)


def test_a_run_file_is_read_by_its_task_alone():
    reading = "from regard.runs import recipes, run_file; run_file.read(recipes.path_of(sys.argv[1]))"
    assert modules(reading, "sorting") & rooms() == {"regard.tasks.pointer"}


@pytest.mark.parametrize("searching", [True, False])
def test_loading_leaves_the_search_for_garbage_as_it_was(searching: bool):
    try:
        (gc.enable if searching else gc.disable)()
        with pause_collection():
            inside = gc.isenabled()
        assert (inside, gc.isenabled()) == (False, searching)
    finally:
        gc.enable()


WATCH = """
import os, sys, threading
events = []
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
def watch(event, arguments):
    if event.startswith("socket.") or event in ("subprocess.Popen", "os.mkdir", "_thread.start_new_thread"):
        events.append((event, arguments))
    elif event == "open" and arguments[2] & WRITING:
        events.append((event, arguments))
sys.addaudithook(watch)
"""
THREADS = "len(os.listdir('/proc/self/task')) if os.path.isdir('/proc/self/task') else threading.active_count()"


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs the code with warnings as errors, at home in an empty folder, and writes no byte code."""
    places = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(folder))
    variables = environment(PYTHONDONTWRITEBYTECODE="1", **places)
    command = [sys.executable, "-W", "error", "-c", WATCH + code]
    return subprocess.run(command, env=variables, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "code",
    [
        f"import regard\nassert events == [], events\nassert {THREADS} == 1\nassert 'torch' not in sys.modules",
        "import regard, regard.cli.main, regard.testing\nregard.load, regard.record, regard.attend\n"
        "assert all(event == 'open' for event, _ in events), events\nassert threading.active_count() == 1",
    ],
    ids=["importing it", "using it"],
)
def test_the_package_asks_no_network_and_leaves_no_file(code: str, tmp_path: Path):
    done = python(code, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert os.listdir(tmp_path) == []


def test_names_are_those_of_their_modules():
    assert regard.attend is attention.attend
    assert regard.record is recording.record
    assert regard.load is run_file.load
    assert {"attend", "load", "record", "__version__"} <= set(dir(regard))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        regard.lode  # type: ignore[attr-defined]  # noqa: B018


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
    code += "; m.main(['predict', '--help']); m.main(['serve', '--help'])"
    heavy = "{'torch', 'accelerate', 'tokenizers', 'numpy', 'matplotlib', 'pydantic', 'starlette', 'uvicorn'}"
    code += f"; loaded = {heavy} & set(sys.modules); assert not loaded, loaded"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_help_of_every_command_fits_80_columns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    assert max(map(len, overview.splitlines())) <= 80
    for group, commands in COMMANDS.items():
        assert f"─ {group} ─" in overview
        for location in commands:
            function = resolve_name(f"regard.cli.{location}")
            name = function.__name__.rstrip("_")
            summary = (function.__doc__ or "").splitlines()[0]
            assert re.search(rf"│ {name} +{re.escape(summary)} +│", overview), name
            assert main([name, "--help"]) == 0
            lines = capsys.readouterr().out.splitlines()
            assert max(map(len, lines)) <= 80
            assert lines[0].startswith(f"Usage: regard {name}")
            assert summary in map(str.rstrip, lines)


EVERYTHING = """
import importlib, pkgutil, regard
for module in pkgutil.walk_packages(regard.__path__, "regard."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        assert error.name == "triton", error  # which comes with builds of torch for GPUs
"""


@pytest.fixture
def tried(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """An environment with such a torchvision before any other, and a file that is there once somebody has tried it."""
    package, told = tmp_path / "other" / "torchvision", tmp_path / "tried"
    package.mkdir(parents=True)
    about = package.with_name("torchvision-0.1.0.dist-info")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: torchvision\nVersion: 0.1.0\n")
    why = "operator torchvision::nms does not exist"
    (package / "__init__.py").write_text(f"open({str(told)!r}, 'w').close()\nraise RuntimeError({why!r})\n")
    given = environment()
    return given | {"PYTHONPATH": f"{package.parent}{os.pathsep}{given['PYTHONPATH']}"}, told


def test_the_broken_one_would_be_noticed(tried: tuple[dict[str, str], Path]):
    given, told = tried
    done = subprocess.run([sys.executable, "-c", "import torchvision"], env=given, capture_output=True, text=True)
    assert (done.returncode, "nms does not exist" in done.stderr, told.exists()) == (1, True, True)


@pytest.mark.slow
def test_no_module_of_ours_imports_it(tried: tuple[dict[str, str], Path]):
    given, told = tried
    done = subprocess.run([sys.executable, "-c", EVERYTHING], env=given, capture_output=True, text=True)
    assert (done.returncode, told.exists()) == (0, False), done.stderr


@pytest.mark.slow
def test_training_and_answering_do_without_it(tried: tuple[dict[str, str], Path], tmp_path: Path):
    given, told = tried
    for arguments in (["train", "dates", *tiny(), "--out", "run"], ["predict", "run", "9 May 2018"]):
        code, _, errors = finish(start(*arguments, env=given, cwd=tmp_path))
        assert code == 0, errors
    assert not told.exists()
