import json
import math
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given, settings, strategies
from pydantic import Field

from regard.config.loader import Discriminated, Registry, Renames, load
from regard.config.yaml_tree import Node, apply_setting, dump, format_setting
from regard.errors import InputError
from regard.runs import run_file
from regard.runs.recipes import path_of
from tests.runs.test_run_file import needed


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


def refuse(path: Path, settings: tuple[str, ...] = (), schema: Any = Run) -> list[str]:
    """The lines of the error."""
    with pytest.raises(InputError) as caught:
        load(path, schema, settings)
    return str(caught.value).splitlines()


def check(lines: list[str], *starts: str) -> None:
    """Each line begins with a location and key, and has the words after ` ... `."""
    assert len(lines) == len(starts), lines
    for line, start in zip(lines, starts, strict=True):
        location, *words = start.split(" ... ")
        assert line.startswith(f"{location}: "), line
        assert all(word in line for word in words), line


REFUSALS = json.loads((Path(__file__).parent / "refusals.json").read_text(encoding="utf-8"))
"""Recipe, settings or (line, text in its place), and the location and key of each mistake."""


@pytest.mark.parametrize("name", sorted({row[0] for row in REFUSALS}))
def test_mistakes_in_recipes_keep_their_location_and_key(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for _, change, expected in [row for row in REFUSALS if row[0] == name]:
        path, settings = path_of(name), needed(name)
        if isinstance(change[0], int):
            lines = path.read_text(encoding="utf-8").split("\n")
            lines[change[0] - 1] = change[1]
            path = Path("run.yaml")
            path.write_text("\n".join(lines), encoding="utf-8")
        else:
            settings = [*settings, *change]
        if expected:
            with pytest.raises(InputError) as caught:
                run_file.read(path, settings)
            check(str(caught.value).splitlines(), *expected)
        else:
            run_file.read(path, settings)


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


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", ".001", "1E-03", "+1e-3"])
def test_every_spelling_of_a_number_is_a_number(write, text: str) -> None:
    assert load(write(GOOD.replace("1e-3", text)), Run).training.rate == 0.001


@pytest.mark.parametrize(
    ("content", "starts"),
    [
        (GOOD.replace("heads", "heds"), ["recipe.yaml:4: model.heds ... unknown key ... did you mean 'heads'?"]),
        (GOOD.replace("heads", "zzz"), ["recipe.yaml:4: model.zzz ... expected one of 'name', 'heads', 'dropout'"]),
        (GOOD.replace("soft", "sofd"), ["recipe.yaml:3: model.name ... 'sofd' ... did you mean 'soft'?"]),
        (GOOD.replace("  name: soft\n", ""), ["recipe.yaml:2: model.name ... missing ... soft, hard"]),
        ("model: {name: hard}\n", ["recipe.yaml:1: model.samples ... missing", "recipe.yaml:1: training ... missing"]),
        (
            GOOD + "data:\n- kind: file\n  path: 7\n- kind: file\n  pth: b\nfallback: 5\n",
            [
                "recipe.yaml:10: data[0].path ... got 7 ... text",
                "recipe.yaml:11: data[1].path ... missing",
                "recipe.yaml:12: data[1].pth ... 'path'",
                "recipe.yaml:13: fallback ... got 5 ... null or a mapping",
            ],
        ),
        (GOOD.replace("steps: 11", "steps: 5\n  average: true"), ["recipe.yaml:5: training ... at least 7 steps"]),
        (GOOD + "  steps: 13\n  rat: 5\n", ["recipe.yaml:8: training.steps ... twice ... line 6"]),
        (GOOD.replace("11", str(2**63)), [f"recipe.yaml:6: training.steps ... got {2**63} ... below 2^63"]),
        (GOOD + "12: 3\n", ["recipe.yaml:8 ... '12' is not text"]),
        (GOOD + "? [a, b]\n: 5\n", ["recipe.yaml:8 ... is not text"]),
        (GOOD.replace("steps: 11", "steps: " + "1" * 5000), ["recipe.yaml:6: training.steps"]),
    ],
)
def test_mistakes_in_keys(write, content: str, starts: list[str]) -> None:
    check(refuse(write(content)), *starts)


def test_all_wrong_values_are_listed_with_line_and_value(write) -> None:
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
data: 3
extra: 3
"""
    check(
        refuse(write(content)),
        "recipe.yaml:3: model.heads ... got 0 ... a number >= 1",
        "recipe.yaml:4: model.dropout ... got 1.5 ... a number < 1",
        "recipe.yaml:6: training.steps ... got 'many' ... a whole number",
        "recipe.yaml:7: training.rate ... got true ... a number",
        "recipe.yaml:9: training.betas ... got [0.9, 'fast'] ... a number",
        "recipe.yaml:10: training.average ... got 'yes' ... true or false",
        "recipe.yaml:11: training.precision ... got 'float16' ... float32 or bfloat16",
        "recipe.yaml:12: title ... got 12 ... text",
        "recipe.yaml:13: data ... got 3",
        "recipe.yaml:14: extra ... got 3 ... a mapping",
    )


@dataclass(frozen=True)
class Lazy:
    model: Annotated[
        Any, Discriminated("name", Registry("regard.models", {"han": "han:HanConfig", "gpt2": "gpt2:GPT2Config"}))
    ]
    other: Annotated[Any, Discriminated("name", Registry("regard.nowhere", {"none": "none:None"}))] | None = None


def test_a_class_known_by_name_is_the_only_one_that_is_imported(write) -> None:
    run = load(write("model: {name: han, embedding: 5}\nother: ~\n"), Lazy)
    assert (type(run.model).__name__, run.model.embedding, run.other) == ("HanConfig", 5, None)


@pytest.mark.parametrize(
    ("content", "start"),
    [
        ("model: {name: han, embeding: 5}\n", "recipe.yaml:1: model.embeding ... 'embedding'"),
        ("model: {name: hen}\n", "recipe.yaml:1: model.name ... 'hen' ... han, gpt2"),
        ("model: {}\n", "recipe.yaml:1: model.name ... han, gpt2"),
        ("model: han\n", "recipe.yaml:1: model ... 'han' ... a mapping"),
        ("model: {name: han}\nother: 3\n", "recipe.yaml:2: other ... got 3"),
        ("{}\n", "recipe.yaml:1: model ... missing"),
    ],
)
def test_what_is_no_class_known_by_name(write, content: str, start: str) -> None:
    check(refuse(write(content), schema=Lazy), start)


@pytest.mark.parametrize(
    ("content", "start"),
    [
        ("model: [1, 2\ntraining: 3\n", "recipe.yaml:2 ... not valid YAML"),
        ("model:\n\tname: soft\n", "recipe.yaml:2 ... a tab; indent with spaces"),
        ("model:\n  name: soft\n\theads: 2\n", "recipe.yaml:3 ... a tab"),
        ("a: 1\n---\nb: 2\n", "recipe.yaml:2 ... not valid YAML"),
        ("a: 1\nb: \x00\n", "recipe.yaml:2 ... character 0x00"),
        ("a: &x {b: 1}\nc: *x\n", "recipe.yaml:1 ... anchors (&) and aliases (*)"),
        ("a: !!python/object/apply:os.getpid []\n", "recipe.yaml:1 ... tags (!)"),
        ("[" * 5000, "recipe.yaml ... nested too deeply"),
        (b"a: 1\nb: caf\xe9\n", "recipe.yaml:2 ... not UTF-8 (byte 0xe9 at offset 11)"),
        ("a: 1\n".encode("utf-16"), "recipe.yaml:1 ... not UTF-8 (byte 0xff at offset 0)"),
        ("", "recipe.yaml ... is empty"),
        ("# only a comment\n\n", "recipe.yaml ... is empty"),
        ("- model\n", "recipe.yaml:1 ... ['model']"),
        ("just words\n", "recipe.yaml:1 ... 'just words'"),
        ("#" * (1 << 20) + "\n", "recipe.yaml ... larger than 1048576 bytes"),
    ],
)
def test_an_unreadable_file_is_one_line(write, content: str | bytes, start: str) -> None:
    check(refuse(write(content)), start)


def test_a_missing_file_and_a_directory(write, tmp_path: Path) -> None:
    check(refuse(Path("none.yaml")), "none.yaml ... no such file")
    Path("folder.yaml").mkdir()
    check(refuse(Path("folder.yaml")), "folder.yaml ... is a directory")
    check(refuse(Path("n" * 300)), "n" * 300 + " ... cannot be read")


def test_a_byte_order_mark_is_removed(write) -> None:
    assert load(write(b"\xef\xbb\xbf" + GOOD.encode()), Run).training.steps == 11


def test_settings_are_put_on_top_and_the_last_one_wins(write) -> None:
    settings = ["training.rate=5e-4", "model={name: hard, samples: 2}", "model.samples=3", "training.rate=1"]
    run = load(write(GOOD), Run, [*settings, "title=no", "fallback.name=soft"])
    assert run == Run(Hard("hard", 3), Steps(11, rate=1.0), title="no", fallback=Soft("soft"))


def test_mistakes_in_settings_name_the_option(write) -> None:
    check(
        refuse(write(GOOD + "title: x\n"), ("model.heads=3", "words", "title.sub=3", "title=[")),
        "--set words",
        "--set title.sub ... title is not a mapping",
        "--set title ... not valid YAML",
    )
    settings = ("model.heads=3", "training.steps=many", "model={name: soft, hds: 2}")
    check(refuse(write(GOOD), settings), "--set model: model.hds ... 'heads'", "--set training.steps ... 'many'")
    check(refuse(write(GOOD), ("model.heds=3",)), "--set model.heds ... 'heads'")


def test_a_broken_rule_is_reported_at_the_options_that_break_it(write) -> None:
    settings = ("training.steps=5", "training.average=true", "training.rate=2")
    check(refuse(write(GOOD), settings), "--set training.steps and training.average ... at least 7 steps")


def test_a_key_of_another_mapping_is_found_there(write) -> None:
    check(refuse(write(GOOD), ("heads=3",)), "--set heads ... 'model.heads' or 'fallback.heads'")
    check(refuse(write(GOOD), ("average=true",)), "--set average ... 'training.average'")


def test_a_setting_that_is_no_yaml_has_the_quotation_marks_that_it_needs(write) -> None:
    check(refuse(write(GOOD), ("title=,a",)), """--set title ... --set "title=',a'\"""")
    check(refuse(write(GOOD), ("training.betas=[0.5,",)), "--set training.betas ... --set 'training.betas=[A, B]'")
    check(refuse(write(GOOD), ("title=Text: body",)), """--set title ... --set 'title="Text: body"'""")


def test_keys_of_the_file_that_the_dataclass_of_an_option_lacks_are_left_out(write, caplog) -> None:
    caplog.set_level("INFO", "regard")
    assert load(write(GOOD), Run, ["model.name=hard", "model.samples=3"]).model == Hard("hard", 3)
    assert "model.name is hard, which has no heads: what recipe.yaml sets there is ignored" in caplog.text
    assert load(write(GOOD), Run, ["model={name: hard}", "model.samples=3"]).model == Hard("hard", 3)
    assert load(write(GOOD), Run, ["model.name=hard", "model.name=soft"]).model == Soft("soft", 3)
    assert "model.hds: unknown key" in refuse(write(GOOD), ("model.name=hard", "model.hds=3"))[0]


def test_files_of_an_option_choose_the_data_that_reads_them(write, caplog) -> None:
    caplog.set_level("INFO", "regard")
    file = write("where: {kind: made, train: 3, seed: 5, size: 2}\n")
    assert load(file, Somewhere, ["where.kind=named", "where.train=a"]).where == Named("named", "a", 5)
    check(refuse(file, ("where.kind=named",), Somewhere), "--set where.train ... missing")
    caplog.clear()
    assert load(file, Somewhere, ["where.train=a.csv"]).where == Named("named", "a.csv", 5)
    assert "where.kind is named, which has no size: what recipe.yaml sets there is ignored" in caplog.text
    assert load(file, Somewhere, ["where.train=7"]).where == Made("made", 7, 5, 2)
    check(refuse(file, ("where.train=a",), Somewhere), "--set where.train ... got 'a' ... kind named")


def test_former_names_are_read_with_a_warning(write, caplog) -> None:
    renames = Renames({"title": {"old": "new"}})
    assert load(write(GOOD + "title: old\n"), Run, renames=renames).title == "new"
    assert "recipe.yaml:8: title: old is now named new; change it" in caplog.text


def test_a_retired_key_is_read_with_its_last_value_only(write) -> None:
    renames = Renames(retired={"model.shape": [1, 2], "gone.deeper": 3})
    file = write(GOOD.replace("heads: 3", "heads: 3\n  shape: [1, 2]"))
    assert load(file, Run, renames=renames).model.heads == 3
    file = write(GOOD.replace("heads: 3", "heads: 3\n  shape: [1, 3]"))
    with pytest.raises(InputError, match=r"model\.shape: unknown key"):
        load(file, Run, renames=renames)


@dataclass(frozen=True)
class Titled:
    name: str | None


@dataclass(frozen=True)
class Listed:
    texts: str | tuple[str, ...]
    mixed: tuple[str | int, ...]


@pytest.mark.parametrize("sign", ["|", ">", "#", "-", ",", ";", "\t", " ", "'", "&", "%", "?", ":"])
def test_a_setting_may_be_a_single_sign(sign: str, write) -> None:
    assert load(write("name: a\n"), Titled, [f"name={sign}"]).name == sign
    assert load(write("name: a\n"), Titled, ["name=~"]).name is None


def test_a_number_is_a_text_of_a_setting_where_a_text_is_expected(write) -> None:
    assert load(write("name: a\n"), Titled, ["name=-1"]).name == "-1"
    assert load(write("name: a\n"), Titled, ["name=007"]).name == "007"
    assert load(write("texts: a\n"), Listed, ["texts=[a, 12]", "mixed=[a, 12]"]) == Listed(("a", "12"), ("a", 12))
    check(refuse(write("name: 12\n"), schema=Titled), "recipe.yaml:1: name ... got 12 ... text")


@given(strategies.text("aB1-.,: '\"[]{}#&~ü\\\t$", max_size=9))
def test_a_proposed_option_is_read_as_the_value(value: str) -> None:
    for setting in (value, [value, 3], 17):
        option, text = shlex.split(format_setting("data.key", setting))
        root = Node({}, "", "", 1)
        apply_setting(root, text)
        assert option == "--set"
        assert root.plain() == {"data": {"key": setting}}


@pytest.mark.parametrize("text", ["# of words", "#1 String", "Body #1", "x, y #2"])
def test_a_setting_has_no_comments(text: str) -> None:
    root = Node({}, "", "", 1)
    apply_setting(root, f"data.text={text}")
    assert root.plain() == {"data": {"text": text}}


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
