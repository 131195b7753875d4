"""Recordings in folders that are named by their transcripts, as those of Speech Commands (Warden 2018, 1804.03209), and
in folders with a file of transcripts each, as those of LibriSpeech (Panayotov 2015)."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.config.recognition import first_lines, suffix
from regard.data.bad_records import Row
from regard.data.beside import FilesBeside
from regard.data.images import check_classes, folders_in
from regard.data.lines import numbered_lines
from regard.data.opening import hidden
from regard.errors import InputError

LISTS = {"valid": "validation_list.txt", "test": "testing_list.txt"}
"""The files that list the recordings of a set, in the folder of the folders."""
ASIDE = "_"
"""The first character of folders that are no transcripts, such as `_background_noise_`."""
SPEAKER = re.compile(r"([0-9a-f]+)_nohash_\d+")
"""The name of a recording by its speaker and how often the speaker says the word."""
TRANSCRIPTS = "*.trans.txt"
"""The files of LibriSpeech that have the name and the transcript of a recording in each line."""


def in_named_folders(
    folder: Path, every: Sequence[Path], files: FilesBeside
) -> list[tuple[Path, str]]:
    """Of every recording in a folder, each with the name of its own folder, its transcript. None where they may have
    other transcripts: one has a .txt file of its name, or one is in the folder itself or deeper than in a folder of it.
    Raises InputError for folders that are named after sets, and for a table in the folder above."""
    if not every or any(each.with_suffix(".txt").is_file() for each in every):
        return []
    check_classes(str(folder), [each.name for each in folders_in(folder)])
    files.check_above(folder, every)
    found = [
        each
        for each in every
        if not each.relative_to(folder).parts[0].startswith(ASIDE)
    ]
    names = {each.parent.name for each in found}
    flat = all(each.parent.parent == folder for each in found)
    return (
        [(each, each.parent.name) for each in found] if flat and len(names) > 1 else []
    )


def transcribed(folder: Path) -> list[Row]:
    """The name of each recording, without its ending, and its transcript, from LibriSpeech's files in a folder and the
    folders in it."""
    found = []
    for file in sorted(each for each in folder.rglob(TRANSCRIPTS) if not hidden(each)):
        for number, line in numbered_lines(file):
            name, _, transcript = line.strip().partition(" ")
            if name:
                found.append(Row((name, transcript), f"{file}:{number}"))
    return found


def lists_in(folder: Path) -> dict[str, str]:
    """The lists in a folder, by their sets."""
    return {
        name: str(folder / file)
        for name, file in LISTS.items()
        if (folder / file).is_file()
    }


def is_list(path: Path, files: FilesBeside) -> bool:
    """Whether a .txt file has the name of a recording in each line."""
    lines = [*filter(str.strip, first_lines(path))] if suffix(path) == "txt" else []
    return bool(lines) and all(
        Path(line.strip()).suffix.lower() in files.suffixes for line in lines
    )


def listed(path: Path) -> Iterator[tuple[Path, str, str]]:
    """The recordings of a list, such as `yes/0a7c2a8d_nohash_0.wav` in each line, with the name of its folder and its
    place. Raises InputError for a recording that is not there, and for one without a folder."""
    for number, line in numbered_lines(path):
        name, place = line.strip(), f"{path}:{number}"
        if not name:
            continue
        if not (folder := Path(name).parent.name):
            raise InputError(
                f"{place}: {name!r} has no folder, whose name is its transcript; expected FOLDER/FILE"
            )
        if not (file := path.parent / name).is_file():
            raise InputError(
                f"{place}: no audio file {name} beside the list; fetch it, or remove the line"
            )
        yield file, folder, place


def speaker(file: str) -> str:
    """The speaker of a recording where the name of its file has Speech Commands' form; else the file."""
    found = SPEAKER.fullmatch(Path(file).stem)
    return found[1] if found else file
