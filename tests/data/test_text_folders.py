"""Texts in folders of their classes, as IMDB's reviews are unpacked."""

from pathlib import Path

import pytest

from regard.data.tables import Tabular, has_texts, kind, table_files
from regard.errors import InputError
from regard.tasks.classification.data import LabelledTables


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """The folder `train` of IMDB's reviews: two classes, texts without one, and lists of addresses beside them."""
    folder = tmp_path / "train"
    for name in ("pos", "neg", "unsup"):
        (folder / name).mkdir(parents=True)
        for number in range(10):
            (folder / name / f"{number}_8.txt").write_text(
                f"a {name} film<br />\nof {number} hours\n", encoding="utf-8"
            )
    (folder / "urls_pos.txt").write_text("an address\n", encoding="utf-8")
    (folder / "labeledBow.feat").write_text("9 0:9 1:1\n", encoding="utf-8")
    return folder


def test_each_file_is_a_row_with_the_name_of_its_folder(reviews: Path):
    assert table_files(str(reviews)) == [str(reviews)]
    assert kind(str(reviews)) == "folders"
    rows = Tabular().rows(str(reviews), {"text": "text", "label": "label"})
    assert len(rows) == 20
    assert rows[0].fields == ("a neg film<br /> of 0 hours", "neg")
    assert rows[-1].fields == ("a pos film<br /> of 9 hours", "pos")
    assert rows[0].place == f"{reviews / 'neg' / '0_8.txt'}:1"


def test_a_classifier_holds_some_out(reviews: Path):
    splits = LabelledTables(train=str(reviews)).load()
    assert {each.label for each in splits.train} == {each.label for each in splits.valid} == {"pos", "neg"}
    assert (len(splits.train), len(splits.valid)) == (18, 2)


def test_folders_of_sets_are_one_level_too_high(reviews: Path):
    reviews.rename(reviews.parent / "test")
    (reviews / "neg").mkdir(parents=True)
    (reviews / "urls_neg.txt").write_text("an address\n", encoding="utf-8")
    (reviews.parent / "test" / "urls_neg.txt").write_text("an address\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"its folders are the sets test, train and no classes; name each: --set"):
        Tabular().rows(str(reviews.parent), {"text": "text", "label": "label"})


def test_other_columns_and_blank_texts_are_named(reviews: Path):
    with pytest.raises(InputError, match="no column 'review' in the folders of texts, which has 'text', 'label'"):
        Tabular().rows(str(reviews), {"text": "review", "label": "label"})
    (reviews / "pos" / "3_8.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"3_8.txt: 1 lines, all of them blank; .*--set data.skip_bad=true"):
        Tabular().rows(str(reviews), {"text": "text", "label": "label"})
    assert len(Tabular(skip_bad=True).rows(str(reviews), {"text": "text", "label": "label"})) == 19


def test_a_folder_with_tables_has_tables(reviews: Path):
    (reviews / "all.csv").write_text("text,label\na,b\n", encoding="utf-8")
    assert not has_texts(reviews)
    assert table_files(str(reviews)) == [str(reviews / "all.csv")]
    assert not has_texts(reviews / "pos")
