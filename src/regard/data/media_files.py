"""Tables that list media files by relative path."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.config.file_kinds import detect_text_table, is_table_name, read_first_lines
from regard.config.yaml_tree import format_setting
from regard.data.files import SETS, folders_in, is_hidden, read_lines
from regard.data.tables import kinds
from regard.errors import InputError

NUMBER = re.compile(r"#\d+$")
"""What follows the name of an image that has several captions."""


@dataclass(frozen=True)
class MediaFiles:
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

    def find(self, name: str, place: str) -> Path:
        """The file of a name in the table of a place. Raises InputError for one that is not there."""
        names, folders = (
            [*self._names(name)],
            self._folders(Path(place.rpartition(":")[0]).parent),
        )
        files = (folder / name for folder in folders for name in names)
        if file := next((file for file in files if file.is_file()), None):
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
            path for path in folder.iterdir() if path.is_file() and not is_hidden(path)
        )
        tables = [file for file in files if is_table_name(file.name)] or [
            file for file in files if self._lists(file)
        ]
        if len(tables) <= 1:
            return tables[0] if tables else None
        sets = {
            SETS[table.stem.lower()]: table
            for table in tables
            if table.stem.lower() in SETS
        }
        advice = " ".join(
            format_setting(f"data.{key}", str(sets[key]))
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
            (file, file.with_suffix(".txt"))
            for file in files
            if file.with_suffix(".txt").is_file()
        ]
        if found:
            return [
                (item, [line.strip() for line in read_lines(text) if line.strip()])
                for item, text in found
            ]
        self.check_above(folder, files)
        raise InputError(
            f"{folder}: has no {self.table} ({kinds()}) and no {self.what} with a .txt file of the same name; add them"
        )

    def within(self, folder: Path) -> list[Path]:
        """The files of this kind in a folder and the folders in it, sorted."""
        return sorted(
            path
            for path in folder.rglob("*")
            if path.suffix.lower() in self.suffixes and not is_hidden(path)
        )

    def check_above(self, folder: Path, files: Sequence[Path]) -> None:
        """Raises InputError for files in a folder whose table is in the folder above."""
        above = folder.absolute().parent
        beside = (
            sorted(path for path in above.iterdir() if path.is_file()) if files else []
        )
        if tables := [
            item for item in beside if self._lists(item) or names_some(item, files)
        ]:
            named = (
                folder.parent
                / min(
                    tables, key=lambda item: SETS.get(item.stem.lower()) != "train"
                ).name
            )
            raise InputError(
                f"{folder}: has {len(files):,} {self.what}s and no {self.table}; {named} is one level above: "
                + format_setting("data.train", str(named))
            )

    def _lists(self, file: Path) -> bool:
        """Whether a .txt file is a table whose rows name such files."""
        mark = {"tsv": "\t", "csv": ","}.get(detect_text_table(file))
        rows = [line.split(mark) for line in read_first_lines(file)] if mark else []
        return any(
            Path(NUMBER.sub("", cell)).suffix.lower() in self.suffixes
            for row in rows
            for cell in row
        )


def names_some(table: Path, files: Sequence[Path]) -> bool:
    """Whether the first lines of a file that is a table by its name have the names of some of the files."""
    return is_table_name(table.name) and any(
        file.stem in line for line in read_first_lines(table) for file in files
    )
