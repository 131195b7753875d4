"""Tables that name files, such as images and sounds: the table of a folder, and the files beside a table."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config.recognition import first_lines, named_table, text_table
from regard.config.yaml_nodes import setting
from regard.data.images import folders_in
from regard.data.lines import read_lines
from regard.data.opening import hidden
from regard.data.set_files import SETS
from regard.data.tables import kinds
from regard.errors import InputError

NUMBER = re.compile(r"#\d+$")
"""What follows the name of an image that has several captions."""


@dataclass(frozen=True)
class FilesBeside:
    """The files of one kind that tables or texts belong to.

    what, table: the names of such a file and of what its table has, for messages.
    suffixes: the endings of the files' names, in small letters.
    key: the key of a run file that names the `folder` of the files, seen from the working directory or from the
    table's; for `.` they are beside the table, in a folder there, or, where neither has one of the name, here.
    """

    what: str
    table: str
    suffixes: Collection[str]
    key: str
    folder: str = "."

    def found(self, name: str, place: str) -> Path:
        """The file of a name in the table of a place. Raises InputError for one that is not there."""
        names, folders = (
            [*self._names(name)],
            self._folders(Path(place.rpartition(":")[0]).parent),
        )
        files = (folder / each for folder in folders for each in names)
        if file := next((each for each in files if each.is_file()), None):
            return file
        searched = (
            "beside the table, in a folder there or here"
            if self.folder == "."
            else f"in {self.folder}"
        )
        raise InputError(
            f"{place}: no {self.what} {name} {searched}; set {self.key} to the folder that it is in"
        )

    def _folders(self, beside: Path) -> Iterator[Path]:
        """The folders that a file may be in. The working directory comes last, since its files of the same name may
        be of another set; folders there are listed only where they are needed, since many files take long."""
        if self.folder != ".":
            yield from (Path(self.folder), beside / self.folder)
            return
        yield beside
        yield from folders_in(beside)
        yield Path()

    def _names(self, name: str) -> Iterator[str]:
        """The names that a file may have: as in the table, without Flickr8k's number of a caption (`dog.jpg#0`), and
        with an ending where it has none, as the recordings of LJSpeech."""
        yield name
        if (bare := NUMBER.sub("", name)) != name:
            yield bare
        if Path(bare).suffix.lower() not in self.suffixes:
            yield from (f"{bare}{ending}" for ending in sorted(self.suffixes))

    def table_in(self, folder: Path) -> Path | None:
        """The table of a folder: by its ending, or a .txt file whose rows name such files; None if it has none. Raises
        InputError if it has several."""
        files = sorted(
            each for each in folder.iterdir() if each.is_file() and not hidden(each)
        )
        tables = [each for each in files if named_table(each.name)] or [
            each for each in files if self._lists(each)
        ]
        if len(tables) <= 1:
            return tables[0] if tables else None
        sets = {
            SETS[each.stem.lower()]: each
            for each in tables
            if each.stem.lower() in SETS
        }
        advice = " ".join(
            setting(f"data.{key}", str(sets[key]))
            for key in ("train", "valid", "test")
            if key in sets
        )
        names = f"{tables[0].name} and {tables[1].name}"
        raise InputError(
            f"{folder}: has several tables, such as {names}; name {advice or 'one'}"
        )

    def texts(
        self, folder: Path, files: Sequence[Path]
    ) -> list[tuple[Path, list[str]]]:
        """Of the files `within` a folder those that have a .txt file of their name, with its lines. Raises InputError
        if there is none, with the table in the folder above, if there is one."""
        found = [
            (each, each.with_suffix(".txt"))
            for each in files
            if each.with_suffix(".txt").is_file()
        ]
        if found:
            return [
                (each, [line.strip() for line in read_lines(text) if line.strip()])
                for each, text in found
            ]
        self.check_above(folder, files)
        raise InputError(
            f"{folder}: has no {self.table} ({kinds()}) and no {self.what} with a .txt file of the same name; add them"
        )

    def within(self, folder: Path) -> list[Path]:
        """The files of this kind in a folder and the folders in it, sorted."""
        return sorted(
            each
            for each in folder.rglob("*")
            if each.suffix.lower() in self.suffixes and not hidden(each)
        )

    def check_above(self, folder: Path, files: Sequence[Path]) -> None:
        """Raises InputError for files in a folder whose table is in the folder above."""
        above = folder.absolute().parent
        beside = (
            sorted(each for each in above.iterdir() if each.is_file()) if files else []
        )
        if tables := [
            each for each in beside if self._lists(each) or names_some(each, files)
        ]:
            named = (
                folder.parent
                / min(
                    tables, key=lambda each: SETS.get(each.stem.lower()) != "train"
                ).name
            )
            raise InputError(
                f"{folder}: has {len(files):,} {self.what}s and no {self.table}; {named} is one level above: "
                + setting("data.train", str(named))
            )

    def _lists(self, file: Path) -> bool:
        """Whether a .txt file is a table whose rows name such files."""
        mark = {"tsv": "\t", "csv": ","}.get(text_table(file))
        rows = [line.split(mark) for line in first_lines(file)] if mark else []
        return any(
            Path(NUMBER.sub("", cell)).suffix.lower() in self.suffixes
            for row in rows
            for cell in row
        )


def names_some(table: Path, files: Sequence[Path]) -> bool:
    """Whether the first lines of a file that is a table by its name have the names of some of the files."""
    return named_table(table.name) and any(
        each.stem in line for line in first_lines(table) for each in files
    )
