"""Tables that list media files by relative path."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.config.file_kinds import detect_text_table, is_table_name, read_first_lines
from regard.config.yaml_tree import format_setting
from regard.data.files import example_in, folders_in, is_hidden
from regard.errors import InputError

CAPTION_NUMBER = re.compile(r"#\d+$")
"""What follows the name of an image that has several captions."""


@dataclass(frozen=True)
class MediaFiles:
    """The files of one kind that tables name.

    Attributes:
        noun: What such a file is called in messages.
        columns: The columns of a table of such files.
        suffixes: The endings of the files' names, in small letters.
        key: The key of a run file that names the folder of the files.
        folder: This folder, seen from the working directory or from the table's. With
            `.` files are beside the table, in a folder there, or else here.
    """

    noun: str
    columns: Mapping[str, str | int]
    suffixes: Collection[str]
    key: str
    folder: str = "."

    def find(self, name: str, place: str) -> Path:
        """Return the file of a name in a table.

        Args:
            name: The name; Flickr8k's have the number of a caption behind them
                (`dog.jpg#0`), those of LJSpeech no ending.
            place: The location of the name, in messages.

        Raises:
            InputError: There is no such file.
        """
        bare = CAPTION_NUMBER.sub("", name)
        names = [name, bare]
        if Path(bare).suffix.lower() not in self.suffixes:
            names += [f"{bare}{ending}" for ending in sorted(self.suffixes)]
        for folder in self._folders(Path(place.rpartition(":")[0]).parent):
            for candidate in names:
                if (folder / candidate).is_file():
                    return folder / candidate
        searched = f"in {self.folder}"
        if self.folder == ".":
            searched = "beside the table, in a folder there or here"
        raise InputError(
            f"{place}: no {self.noun} {name} {searched}; set {self.key} to the folder "
            "that it is in"
        )

    def _folders(self, beside: Path) -> Iterator[Path]:
        """Yield the folders that a file may be in.

        The working directory comes last, since its files of the same name may be of
        another set. Folders are listed only where they are needed, which takes long
        beside many files.
        """
        if self.folder != ".":
            yield from (Path(self.folder), beside / self.folder)
            return
        yield beside
        yield from folders_in(beside)
        yield Path()

    def table_of(self, path: str) -> str:
        """Return the table of a path: the path itself, or the table of a folder.

        It is a table by its ending, or a .txt file whose rows name such files.

        Raises:
            InputError: The folder has none, or several.
        """
        if not Path(path).is_dir():
            return path
        files = [
            file
            for file in sorted(Path(path).iterdir())
            if file.is_file() and not is_hidden(file)
        ]
        tables = [file for file in files if is_table_name(file.name)]
        tables = tables or list(filter(self._lists, files))
        if not tables:
            columns = " and ".join(map(str, self.columns.values()))
            raise InputError(
                f"{path}: has no table with the columns {columns}, only {len(files)} other "
                f"files{example_in(path)}; add {path}/table.csv with a row for each "
                f"{self.noun}"
            )
        if len(tables) > 1:
            names = ", ".join(table.name for table in tables[:3])
            raise InputError(
                f"{path}: has several tables, such as {names}; name that of each set "
                f"with {format_setting('data.train', str(tables[0]))}"
            )
        return str(tables[0])

    def _lists(self, file: Path) -> bool:
        """Return whether a .txt file is a table whose rows name such files."""
        mark = {"tsv": "\t", "csv": ","}.get(detect_text_table(file))
        rows = [line.split(mark) for line in read_first_lines(file)] if mark else []
        names = [CAPTION_NUMBER.sub("", cell) for row in rows for cell in row]
        return any(Path(name).suffix.lower() in self.suffixes for name in names)
