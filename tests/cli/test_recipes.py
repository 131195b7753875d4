from pathlib import Path

import pytest

from regard.errors import InputError
from regard.runs.recipes import names, path_of


def test_every_recipe_has_a_description():
    assert {"dates", "dates-luong", "dates-transformer", "dates-bottleneck"} <= set(names())
    assert all(description and not description.startswith("#") for description in names().values())


def test_a_file_wins_over_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("dates").write_text("mine", encoding="utf-8")
    assert path_of("dates") == Path("dates")


def test_a_folder_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("dates").mkdir()
    assert path_of("dates").is_file()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("daets", "'daets' is neither a recipe nor a file; did you mean 'dates'? The recipes are "),
        ("zzz", "'zzz' is neither a recipe nor a file; expected one of 'bandits', 'bert', 'bitext'"),
        ("mine.yaml", "mine.yaml: no such file; expected a YAML file, or a recipe: bandits, bert, bitext,"),
        ("some/dates", "some/dates: no such file; expected a YAML file, or a recipe: bandits, bert, bitext,"),
    ],
)
def test_neither(given: str, said: str):
    with pytest.raises(InputError) as caught:
        path_of(given)
    assert str(caught.value).startswith(said)


def test_listed(regard):
    code, output, errors = regard("recipes")
    assert (code, errors) == (0, "")
    assert [line.split()[0] for line in output.splitlines()] == list(names())
