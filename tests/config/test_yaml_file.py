import math
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given, settings, strategies
from pydantic import Field

from regard.config import yaml_file, yaml_nodes
from regard.config.mistakes import FEW, unknown
from regard.config.registry import Discriminated, Registry
from regard.config.yaml_file import load
from regard.config.yaml_nodes import Node, setting
from regard.config.yaml_text import dump
from regard.data.image_tables import ImageTables
from regard.data.images import IdxImages, ImageFolders
from regard.errors import InputError


@dataclass(frozen=True)
class Soft:
    name: Literal["soft"]
    heads: Annotated[int, Field(ge=1)] = 2
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1


@dataclass(frozen=True)
class Hard:
    name: Literal["hard"]
    samples: int
    window: int | None = None


@dataclass(frozen=True)
class Made:
    kind: Literal["made"]
    train: int
    seed: int = 1
    size: int = 1


@dataclass(frozen=True)
class Named:
    kind: Literal["named"]
    train: str
    seed: int = 1

    recognised: ClassVar[tuple[str, ...]] = ("table",)


@dataclass(frozen=True)
class Somewhere:
    where: Made | Named


@dataclass(frozen=True)
class File:
    kind: Literal["file"]
    path: Path
    columns: tuple[str, str] = ("source", "target")


@dataclass(frozen=True)
class Steps:
    steps: Annotated[int, Field(ge=1)]
    rate: float = 1e-3
    betas: tuple[float, ...] = (0.9, 0.98)
    average: bool = False
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        if self.average and self.steps < 7:
            raise ValueError("average needs at least 7 steps")


@dataclass(frozen=True)
class Run:
    model: Soft | Hard
    training: Steps
    data: Annotated[tuple[File, ...], Field(min_length=1)] = (File("file", Path("a.tsv")),)
    title: str = ""
    extra: dict[str, int] = field(default_factory=dict)
    fallback: Soft | None = None


GOOD = """\
# a run
model:
  name: soft
  heads: 3
training:
  steps: 11
  rate: 1e-3
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def writer(content: str | bytes) -> Path:
        path = Path("recipe.yaml")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return writer


MODEL_KEYS = " The keys are 'name', 'heads', 'dropout'"


def complaints(path: Path, overrides: tuple[str, ...] = (), schema: Any = Run) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(path, schema, overrides)
    return str(caught.value).splitlines()


def test_a_good_file_becomes_its_dataclasses(write) -> None:
    run = load(write(GOOD), Run)
    assert run == Run(Soft("soft", heads=3), Steps(11, rate=0.001))
    assert isinstance(run.training.rate, float)


def test_every_kind_of_value_arrives_as_its_type(write) -> None:
    more = "title: no\ndata:\n- kind: file\n  path: b c.tsv\n  columns: [x, y]\nextra: {a: 5}\nfallback: ~\n"
    run = load(write(GOOD.replace("rate: 1e-3", "rate: 2\n  betas: [.5, 1]\n  average: true") + more), Run)
    assert run.data == (File("file", Path("b c.tsv"), ("x", "y")),)
    assert (run.title, run.extra, run.fallback, run.training.betas) == ("no", {"a": 5}, None, (0.5, 1.0))
    assert (type(run.training.rate), run.training.rate) == (float, 2)
    assert run.training.average is True


@pytest.mark.parametrize("written", ["1e-3", "1.0e-3", "0.001", ".001", "1E-03", "+1e-3"])
def test_every_spelling_of_a_number_is_a_number(write, written: str) -> None:
    assert load(write(GOOD.replace("1e-3", written)), Run).training.rate == 0.001


def test_row_01_typo_in_a_key_names_the_nearest(write) -> None:
    assert complaints(write(GOOD.replace("heads", "heds"))) == [
        "recipe.yaml:4: model.heds: unknown key; did you mean 'heads'?" + MODEL_KEYS
    ]


def test_row_01_a_key_far_from_all_lists_them(write) -> None:
    assert complaints(write(GOOD.replace("heads", "zzz"))) == [
        "recipe.yaml:4: model.zzz: unknown key; expected one of 'name', 'heads', 'dropout'"
    ]


def test_row_01_a_wrong_name_in_a_union(write) -> None:
    assert complaints(write(GOOD.replace("soft", "sofd"))) == [
        "recipe.yaml:3: model.name: got 'sofd', expected soft or hard; did you mean 'soft'?"
    ]
    assert complaints(write(GOOD.replace("  name: soft\n", ""))) == [
        "recipe.yaml:2: model.name: missing; expected soft or hard"
    ]


LAZY = Registry("regard.models", {"han": "han:HanConfig", "gpt2": "gpt2:GPT2Config"})


@dataclass(frozen=True)
class Lazy:
    model: Annotated[
        Any, Discriminated("name", Registry("regard.models", {"han": "han:HanConfig", "gpt2": "gpt2:GPT2Config"}))
    ]
    other: Annotated[Any, Discriminated("name", Registry("regard.nowhere", {"none": "none:None"}))] | None = None


def test_a_class_known_by_name_is_the_only_one_that_is_imported(write) -> None:
    run = load(write("model: {name: han, embedding: 5}\nother: ~\n"), Lazy)
    assert (type(run.model).__name__, run.model.embedding, run.other) == ("HanConfig", 5, None)
    assert complaints(write("model: {name: han, embeding: 5}\n"), schema=Lazy) == [
        "recipe.yaml:1: model.embeding: unknown key; did you mean 'embedding'? The keys are 'name', 'embedding', "
        "'width', 'attention', 'words', 'sentences', 'longest_sentence', 'dropout'"
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("model: {name: hen}\n", "recipe.yaml:1: model.name: got 'hen', expected han or gpt2; did you mean 'han'?"),
        ("model: {}\n", "recipe.yaml:1: model.name: missing; expected han or gpt2"),
        ("model: han\n", "recipe.yaml:1: model: got 'han', expected a mapping with name: han or gpt2"),
        (
            "model: {name: han}\nother: 3\n",
            "recipe.yaml:2: other: got 3, expected a mapping with name: none or null",
        ),
        ("{}\n", "recipe.yaml:1: model: missing; expected a mapping with name: han or gpt2"),
    ],
)
def test_row_02_what_is_no_class_known_by_name(write, content: str, said: str) -> None:
    assert complaints(write(content), schema=Lazy) == [said]


def test_row_02_all_wrong_values_are_listed_with_line_and_value(write) -> None:
    content = """\
model:
  name: soft
  heads: 0
  dropout: 1.5
training:
  steps: many
  rate: true
  betas: [0.9,
          fast]
  average: "yes"
  precision: float16
title: 12
data: []
extra: 3
"""
    assert complaints(write(content)) == [
        "recipe.yaml:3: model.heads: got 0, expected a whole number >= 1",
        "recipe.yaml:4: model.dropout: got 1.5, expected a number >= 0 and < 1",
        "recipe.yaml:6: training.steps: got 'many', expected a whole number >= 1",
        "recipe.yaml:7: training.rate: got true, expected a number",
        "recipe.yaml:9: training.betas: got [0.9, 'fast'], expected a list, each a number",
        "recipe.yaml:10: training.average: got 'yes', expected true or false",
        "recipe.yaml:11: training.precision: got 'float16', expected float32 or bfloat16",
        'recipe.yaml:12: title: got 12, expected text, in quotation marks: "12"',
        "recipe.yaml:13: data: got [], expected a list, each a mapping with kind, path, columns of length >= 1",
        "recipe.yaml:14: extra: got 3, expected a mapping",
    ]


@pytest.mark.parametrize("value", ['"12"', "true", "12.0", "1e2", "~", "[12]", "{a: 12}", "1_2_", "0x1f", "12:30"])
def test_row_02_only_a_whole_number_is_a_whole_number(write, value: str) -> None:
    (only,) = complaints(write(GOOD.replace("steps: 11", f"steps: {value}")))
    assert only.startswith("recipe.yaml:6: training.steps: got ")
    assert only.endswith(", expected a whole number >= 1")


def test_row_02_a_missing_key_says_what_it_should_be(write) -> None:
    assert complaints(write("model: {name: hard}\n")) == [
        "recipe.yaml:1: model.samples: missing; expected a whole number",
        "recipe.yaml:1: training: missing; expected a mapping with steps, rate, betas, average, precision",
    ]


def test_row_02_problems_inside_a_list_and_in_optional_parts(write) -> None:
    content = GOOD + "data:\n- kind: file\n  path: 7\n- kind: file\n  pth: b\nfallback: 5\n"
    assert complaints(write(content)) == [
        "recipe.yaml:10: data[0].path: got 7, expected a path",
        "recipe.yaml:11: data[1].path: missing; expected a path",
        "recipe.yaml:12: data[1].pth: unknown key; did you mean 'path'? The keys are 'kind', 'path', 'columns'",
        "recipe.yaml:13: fallback: got 5, expected a mapping with name, heads, dropout or null",
    ]


def test_row_02_a_rule_between_fields_is_reported_at_its_section(write) -> None:
    content = GOOD.replace("steps: 11", "steps: 5\n  average: true")
    assert complaints(write(content)) == ["recipe.yaml:5: training: average needs at least 7 steps"]


def test_a_broken_rule_is_reported_at_the_options_that_break_it(write) -> None:
    options = ("training.steps=5", "training.average=true", "training.rate=2")
    assert complaints(write(GOOD), options) == [
        "--set training.steps and training.average: average needs at least 7 steps"
    ]


def test_a_key_of_another_mapping_is_found_there(write) -> None:
    problem = "--set heads: unknown key; did you mean 'model.heads' or 'fallback.heads'?"
    assert complaints(write(GOOD), ("heads=3",)) == [problem]
    problem = "--set average: unknown key; did you mean 'training.average'?"
    assert complaints(write(GOOD), ("average=true",)) == [problem]


def test_an_option_that_is_no_yaml_has_the_quotation_marks_that_it_needs(write) -> None:
    (comma,) = complaints(write(GOOD), ("title=,a",))
    assert comma.endswith("""; quote the value, as --set "title=',a'\"""")
    (cut,) = complaints(write(GOOD), ("training.betas=[0.5,",))
    assert cut.endswith("; quote the whole for the shell, as --set 'training.betas=[A, B]'")


def test_many_keys_are_not_listed_beside_the_nearest() -> None:
    hints = {f"key{number}": int for number in range(FEW + 1)}
    assert unknown("key_3", hints, {}) == "unknown key; did you mean 'key3'?"
    assert unknown("other", {"key": int}, {}) == "unknown key; expected one of 'key'"


def test_a_key_of_another_kind_of_data_names_the_kind() -> None:
    expected = "unknown key; expected one of 'train'"
    kinds = [ImageFolders, ImageTables, IdxImages]
    assert unknown("depth", {"train": str}, {}, kinds) == (
        f"{expected}; 'depth' is a key of image-folders, the kind that reads a folder"
    )
    assert unknown("skip_bad", {"train": str}, {}, kinds) == unknown("none", {"train": str}, {}, kinds) == expected


def test_row_03_duplicate_keys_are_reported_beside_other_mistakes(write) -> None:
    assert complaints(write(GOOD + "  steps: 13\n  rat: 5\n")) == [
        "recipe.yaml:8: training.steps: given twice; first on line 6; keep one of them",
        "recipe.yaml:9: training.rat: unknown key; did you mean 'rate'? The keys are 'steps', 'rate', 'betas', "
        "'average', 'precision'",
    ]


@pytest.mark.parametrize(
    ("content", "start"),
    [
        ("model: [1, 2\ntraining: 3\n", "recipe.yaml:2: not valid YAML: "),
        ("model:\n\tname: soft\n", "recipe.yaml:2: not valid YAML: a tab; indent with spaces"),
        ("model:\n  name: soft\n\theads: 2\n", "recipe.yaml:3: not valid YAML: a tab"),
        ("a: 1\n---\nb: 2\n", "recipe.yaml:2: not valid YAML: "),
        ("a: 1\nb: \x00\n", "recipe.yaml:2: not valid YAML: character 0x00 is not allowed"),
        ("a: &x {b: 1}\nc: *x\n", "recipe.yaml:1: not valid YAML: anchors (&) and aliases (*) are not read here"),
        ("a: !!python/object/apply:os.getpid []\n", "recipe.yaml:1: not valid YAML: tags (!) are not read here"),
        ("[" * 5000, "recipe.yaml: nested too deeply"),
        (b"a: 1\nb: caf\xe9\n", "recipe.yaml:2: not UTF-8 (byte 0xe9 at offset 11); save the file as UTF-8"),
        ("a: 1\n".encode("utf-16"), "recipe.yaml:1: not UTF-8 (byte 0xff at offset 0)"),
        ("", "recipe.yaml: is empty; expected a mapping with model, training, data"),
        ("# only a comment\n\n", "recipe.yaml: is empty; "),
        ("- model\n", "recipe.yaml:1: got ['model'] at the top; expected a mapping with model"),
        ("just words\n", "recipe.yaml:1: got 'just words' at the top; "),
        ("#" * (1 << 20) + "\n", "recipe.yaml: larger than 1048576 bytes"),
    ],
)
def test_row_03_an_unreadable_file_is_one_line(write, content: str | bytes, start: str) -> None:
    (only,) = complaints(write(content))
    assert only.startswith(start)


def test_row_03_missing_file_and_directory(write, tmp_path: Path) -> None:
    assert complaints(Path("none.yaml")) == ["none.yaml: no such file; expected a YAML file"]
    Path("folder.yaml").mkdir()
    assert complaints(Path("folder.yaml")) == ["folder.yaml: is a directory; expected a YAML file"]
    (too_long,) = complaints(Path("n" * 300))
    assert "cannot be read" in too_long


def test_row_03_keys_that_are_not_text(write) -> None:
    lines = complaints(write(GOOD + "12: 3\n? [a, b]\n: 5\n"))
    assert lines[0] == "recipe.yaml:8: key '12' is not text; put a name there, or quote it"
    assert lines[1].startswith("recipe.yaml:9: key a list or mapping is not text")


def test_row_03_a_number_longer_than_python_reads(write) -> None:
    lines = complaints(write(GOOD.replace("steps: 11", "steps: " + "1" * 5000)))
    assert lines[0] == "recipe.yaml:6: training.steps: a number of 5000 digits is too long"


def test_a_byte_order_mark_is_removed(write) -> None:
    assert load(write(b"\xef\xbb\xbf" + GOOD.encode()), Run).training.steps == 11


def test_overrides_are_put_on_top_and_the_last_one_wins(write) -> None:
    overrides = ["training.rate=5e-4", "model={name: hard, samples: 2}", "model.samples=3", "training.rate=1"]
    run = load(write(GOOD), Run, [*overrides, "title=no", "fallback.name=soft"])
    assert run == Run(Hard("hard", 3), Steps(11, rate=1.0), title="no", fallback=Soft("soft"))


def test_keys_of_the_file_that_the_dataclass_of_an_option_lacks_are_left_out(write, caplog) -> None:
    caplog.set_level("INFO", "regard")
    assert load(write(GOOD), Run, ["model.name=hard", "model.samples=3"]).model == Hard("hard", 3)
    assert "model.name is hard, which has no heads: what recipe.yaml sets there is ignored" in caplog.text
    assert load(write(GOOD), Run, ["model={name: hard}", "model.samples=3"]).model == Hard("hard", 3)
    assert load(write(GOOD), Run, ["model.name=hard", "model.name=soft"]).model == Soft("soft", 3)
    assert "model.hds: unknown key" in complaints(write(GOOD), ("model.name=hard", "model.hds=3"))[0]


def test_keys_of_the_file_that_do_not_fit_the_dataclass_of_an_option_are_left_out(write, caplog) -> None:
    caplog.set_level("INFO", "regard")
    file = write("where: {kind: made, train: 3, seed: 5, size: 2}\n")
    assert load(file, Somewhere, ["where.kind=named", "where.train=a"]).where == Named("named", "a", 5)
    assert "where.train: missing; expected text" in complaints(file, ("where.kind=named",), Somewhere)[0]
    caplog.clear()
    assert load(file, Somewhere, ["where.train=a.csv"]).where == Named("named", "a.csv", 5)
    assert "where.kind is named, which has no size: what recipe.yaml sets there is ignored" in caplog.text
    assert load(file, Somewhere, ["where.train=7"]).where == Made("made", 7, 5, 2)
    assert complaints(file, ("where.train=a",), Somewhere) == [
        "--set where.train: got 'a', expected a table (.tsv, .csv, .jsonl or .json, also .gz), as --set "
        "where.train=FILE, or a whole number; there is no such file"
    ]


@dataclass(frozen=True)
class Titled:
    name: str | None


@dataclass(frozen=True)
class Listed:
    texts: str | tuple[str, ...]
    mixed: tuple[str | int, ...]


@pytest.mark.parametrize("sign", ["|", ">", "#", "-", ",", ";", "\t", " ", "'", "&", "%", "?", ":"])
def test_an_override_may_be_a_single_sign(sign: str, write) -> None:
    assert load(write("name: a\n"), Titled, [f"name={sign}"]).name == sign
    assert load(write("name: a\n"), Titled, ["name=~"]).name is None


def test_a_number_is_a_text_of_an_option_where_a_text_is_expected(write) -> None:
    assert load(write("name: a\n"), Titled, ["name=-1"]).name == "-1"
    assert load(write("name: a\n"), Titled, ["name=007"]).name == "007"
    assert load(write("name: a\n"), Titled, ["name=null"]).name is None
    assert load(write("texts: a\n"), Listed, ["texts=[a, 12]", "mixed=[a, 12]"]) == Listed(("a", "12"), ("a", 12))
    assert complaints(write("name: false\n"), schema=Titled) == [
        "recipe.yaml:1: name: got false, expected text or null"
    ]


@given(strategies.text("aB1-.,: '\"[]{}#&~ü\\\t$", max_size=9))
def test_a_proposed_option_is_read_as_the_value(value: str) -> None:
    for whole in (value, [value, 3], 17):
        option, text = shlex.split(setting("data.key", whole))
        root = Node({}, "", "", 1)
        assert (option, yaml_nodes.place(root, text)) == ("--set", [])
        assert root.plain() == {"data": {"key": whole}}


@pytest.mark.parametrize("text", ["# of words", "#1 String", "Body #1", "x, y #2"])
def test_an_option_has_no_comments(text: str) -> None:
    root = Node({}, "", "", 1)
    assert yaml_nodes.place(root, f"data.text={text}") == []
    assert root.plain() == {"data": {"text": text}}


def test_a_text_with_a_colon_is_proposed_in_quotation_marks(write) -> None:
    (line,) = complaints(write(GOOD), ("title=Text: body",))
    assert line.startswith("--set title: got a mapping, expected text")
    assert line.endswith(""", as --set 'title="Text: body"'""")


def test_mistakes_in_overrides_name_the_option(write) -> None:
    overrides = ("model.heds=3", "training.steps=many", "words", "title.sub=3", "model={name: soft, hds: 2}", "title=[")
    lines = complaints(write(GOOD + "title: x\n"), overrides)
    assert lines[:2] == [
        "--set words: expected key=value or key.sub=value",
        "--set title.sub: title is not a mapping, so nothing can be set inside it",
    ]
    assert lines[2].startswith("--set title: not valid YAML: ")
    assert lines[3:] == [
        "--set model: model.hds: unknown key; did you mean 'heads'?" + MODEL_KEYS,
        "--set training.steps: got 'many', expected a whole number >= 1",
    ]
    expected = "--set model.heds: unknown key; did you mean 'heads'?" + MODEL_KEYS
    assert complaints(write(GOOD), ("model.heds=3",)) == [expected]


def test_every_cut_of_a_good_file_either_loads_or_is_one_complaint_a_line(write) -> None:
    def lines(content: str) -> list[str]:
        try:
            load(write(content), Run)
        except InputError as error:
            return str(error).splitlines()
        return []

    cuts = [lines(GOOD[:end]) for end in range(len(GOOD))]
    assert all(line.startswith("recipe.yaml:") for cut in cuts for line in cut)
    assert 0 < cuts.count([]) < 12


def test_dump_of_a_run_loads_back_equal(write) -> None:
    run = Run(
        Hard("hard", 5),
        Steps(13, rate=1e-5, betas=(1e16, math.inf), average=True),
        data=(File("file", Path("é è/日本.tsv"), ("1e-3", "null")),),
        title="two\nlines: # 'quoted' \"text\" \t\x07\u2028",
        extra={"no": 1, "12": -5},
    )
    assert load(write(dump(run)), Run) == run


@settings(max_examples=60, deadline=None)
@given(strategies.text(max_size=20), strategies.floats(allow_nan=False))
def test_dump_keeps_any_text_and_any_number(tmp_path_factory: Any, text: str, rate: float) -> None:
    run = Run(Soft("soft"), Steps(2, rate=rate), title=text)
    path = tmp_path_factory.mktemp("dump") / "run.yaml"
    path.write_text(dump(run), encoding="utf-8")
    assert load(path, Run) == run


def test_reading_a_run_file_does_not_import_torch() -> None:
    code = "import sys, regard.config.yaml_file; sys.exit('torch' in sys.modules)"
    source = str(Path(yaml_file.__file__).parents[2])
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": source}).returncode == 0
