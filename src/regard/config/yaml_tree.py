"""YAML text as a tree of values with the line of each, and back to text.

Settings of the command line are put on top of the tree.
"""

import difflib
import errno
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from pydantic_core import to_jsonable_python

from regard.errors import InputError

MAXIMUM_BYTES = 1 << 20
"""The largest run file: a page of text, so more is another kind of file."""
LONGEST_NUMBER = 1000
"""The digits of a number; what has more is text."""
PREFIX = "tag:yaml.org,2002:"
SCALARS = {
    "null": r"(?:~|null|Null|NULL|)$",
    "bool": r"(?:true|True|TRUE|false|False|FALSE)$",
    "int": r"[-+]?[0-9]+(?:_[0-9]+)*$",
    "float": r"[-+]?(?:(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$",
}
"""YAML 1.2's plain scalars.

1e-3 is a number; `no`, `on`, 12:30 and 2026-01-01 are text.
"""


@dataclass(frozen=True)
class Node:
    """A scalar, a list of nodes or a dict of nodes, with its file and line."""

    value: Any
    text: str
    """The source of a scalar, and of the value of an option."""
    file: str
    line: int
    """0: not from a file but from an option of the command line."""
    replaced: "Node | None" = None
    """The value of the file that an option replaces."""

    def plain(self, *, numbers_as_text: bool = False) -> Any:
        """Return the value without lines; on request every number as its text."""
        value = self.value
        convert = partial(Node.plain, numbers_as_text=numbers_as_text)
        if isinstance(value, dict):
            return {key: convert(node) for key, node in value.items()}
        if isinstance(value, list):
            return list(map(convert, value))
        return self.text if numbers_as_text and type(value) in (int, float) else value

    def describe(self) -> str:
        """Return the value as in the file, shortened, with text in quotes."""
        if isinstance(self.value, dict):
            return "a mapping" if self.value else "an empty mapping"
        if self.value is None:
            return "nothing (null)"
        text = self.text
        if isinstance(self.value, list):
            text = f"[{', '.join(item.describe() for item in self.value)}]"
        elif isinstance(self.value, str):
            text = repr(self.value)
        return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Problem:
    """One mistake; as text it is one line."""

    file: str
    line: int
    path: str
    """The key, such as `model.heads`."""
    message: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.line else self.file
        if self.path and location != f"--set {self.path}":
            location += f": {self.path}"
        return f"{location}: {self.message}"


def add_scalar_rules(yaml_class: Any) -> None:
    """Give a loader or dumper the rules of `SCALARS`."""
    for name, pattern in SCALARS.items():
        yaml_class.add_implicit_resolver(PREFIX + name, re.compile(pattern), None)


class Loader(yaml.SafeLoader):
    """A YAML reader without anchors, aliases and tags."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()
        if event.anchor or event.tag not in (None, "!"):
            raise yaml.MarkedYAMLError(
                problem="anchors (&) and aliases (*) and tags (!) are not read here",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)


Loader.yaml_implicit_resolvers = {}
add_scalar_rules(Loader)


def read(path: Path) -> Node:
    """Return the tree of a file.

    Raises:
        InputError: The file is missing, not UTF-8, too large or not YAML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAXIMUM_BYTES + 1)
    except OSError as error:
        reasons = {errno.ENOENT: "no such file", errno.EISDIR: "is a directory"}
        reason = reasons.get(error.errno or 0, f"cannot be read ({error.strerror})")
        raise InputError(f"{path}: {reason}; expected a YAML file") from error
    if len(data) > MAXIMUM_BYTES:
        raise InputError(
            f"{path}: larger than {MAXIMUM_BYTES} bytes; expected a short YAML file"
        )
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = f"byte {data[error.start]:#04x} at offset {error.start}"
        raise InputError(
            f"{path}:{line}: not UTF-8 ({byte}); save the file as UTF-8"
        ) from error
    return parse(text, str(path))


def parse(text: str, file: str, *, has_lines: bool = True) -> Node:
    """Return the tree of a text; the value of an option has no lines.

    Raises:
        InputError: The text is not YAML, or a key is repeated or no text.
    """
    try:
        root = yaml.compose(text, Loader=Loader)
        if root is None:
            return Node(None, "", file, int(has_lines))
        return Converter(file, has_lines).convert(root)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        message = " ".join(str(getattr(error, "problem", error)).split())
        if isinstance(error, yaml.reader.ReaderError):
            line = text.count("\n", 0, error.position) + 1
            message = f"character {error.character:#04x} is not allowed"
        if "\\t" in message:
            message = "a tab; indent with spaces"
        location = f"{file}:{line}" if has_lines else file
        raise InputError(f"{location}: not valid YAML: {message}") from error
    except RecursionError as error:
        raise InputError(f"{file}: nested too deeply") from error


@dataclass(frozen=True)
class Converter:
    """Makes nodes from those of the YAML reader.

    Attributes:
        file: The file of the text, or the option.
        has_lines: Whether nodes have lines; an option has none.
    """

    file: str
    has_lines: bool

    def convert(
        self, node: yaml.Node, path: str = "", key: yaml.Node | None = None
    ) -> Node:
        """Return a node with the line of its key, if it has one."""
        line = ((key or node).start_mark.line + 1) * self.has_lines
        text = ""
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = {}
            for name, child in node.value:
                place = self.check_key(name, value, path)
                value[name.value] = self.convert(child, place, name)
        elif isinstance(node, yaml.SequenceNode):
            value = [
                self.convert(item, f"{path}[{index}]")
                for index, item in enumerate(node.value)
            ]
        else:
            text = node.value
            value = _convert_scalar(node.tag.removeprefix(PREFIX), text)
        return Node(value, text, self.file, line)

    def check_key(self, key: yaml.Node, entries: dict[str, Node], path: str) -> str:
        """Return the path of a new key. Raises InputError for one that is no text."""
        line = (key.start_mark.line + 1) * self.has_lines
        if key.tag != PREFIX + "str":
            name = key.value if isinstance(key, yaml.ScalarNode) else "a list"
            message = f"key {name!r} is not text; quote it"
            raise InputError(str(Problem(self.file, line, path, message)))
        place = join(path, key.value)
        if key.value in entries:
            first = entries[key.value].line
            message = f"given twice, first on line {first}; keep one of them"
            raise InputError(str(Problem(self.file, line, place, message)))
        return place


def _convert_scalar(tag: str, text: str) -> Any:
    match tag:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int" if len(text) < LONGEST_NUMBER:
            return int(text)
        case "float":
            return float(text.replace(".", "") if text[-1].isalpha() else text)
        case _:
            return text


def apply_setting(root: Node, setting: str) -> None:
    """Set `key.sub=value` in the tree.

    Raises:
        InputError: The setting has another form.
    """
    path, equals, text = setting.partition("=")
    path = path.strip()
    option = f"--set {path}"
    keys = path.split(".")
    if not equals or not all(keys):
        raise InputError(f"--set {setting}: expected key=value or key.sub=value")
    node = Node(text, text, option, 0)
    if not _is_plain_text(text):
        try:
            node = parse(text, option, has_lines=False)
        except InputError as error:
            advice = f"""quote the value: --set "{path}='{text}'\""""
            if text.startswith(("[", "{")):
                pattern = "[A, B]" if text[0] == "[" else "{key: A}"
                advice = f"quote it for the shell: --set '{path}={pattern}'"
            raise InputError(f"{error}; {advice}") from error
    *parents, last = keys
    entries = root.value
    for key in parents:
        if key not in entries or entries[key].value is None:
            entries[key] = Node({}, "", option, 0)
        entries = entries[key].value
        if not isinstance(entries, dict):
            raise InputError(
                f"{option}: {key} is not a mapping, so nothing can be set inside it"
            )
    former = entries.get(last)
    former = former.replaced if former and not former.line else former
    entries[last] = replace(node, text=node.text or text, replaced=former)


def _is_plain_text(text: str) -> bool:
    """Return whether a value is text although YAML would read it otherwise.

    A single sign is, as a delimiter is one; and what would begin a comment, such as the
    column `# of words`.
    """
    if len(text) == 1:
        return not text.isalnum() and text not in "~[{"
    if text.startswith("#"):
        return True
    return " #" in text and text[0] not in "[{'\""


def format_setting(path: str, value: "str | int | Sequence[str | int]") -> str:
    """Return the option that sets a key, quoted for the shell and for YAML."""
    text = str(value)
    if not isinstance(value, str | int):
        text = f"[{', '.join(map(str, value))}]"
    try:
        parsed = parse(text, "", has_lines=False).plain()
    except InputError:
        parsed = None
    if parsed != value:  # YAML would read another value
        text = json.dumps(value, ensure_ascii=False)
    return f"--set {shlex.quote(f'{path}={text}')}"


def join(path: str, key: str) -> str:
    """Return the path of a key inside the mapping at `path`."""
    return f"{path}.{key}" if path else key


def suggest(word: str, names: Sequence[str]) -> str:
    """Return the advice that ends a message about an unknown name."""
    matches = difflib.get_close_matches(
        word,
        names,
        n=1,
        cutoff=0.5,
    )
    if matches:
        return f"did you mean {matches[0]!r}?"
    return f"expected one of {', '.join(map(repr, names))}"


class Dumper(yaml.SafeDumper):
    """A YAML writer that quotes text which a reader would parse as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # In other quotes a line break of any sort comes back as a space or a newline.
    needs_escapes = len(text.splitlines()) > 1 or text != text.strip()
    return dumper.represent_scalar(PREFIX + "str", text, '"' if needs_escapes else None)


add_scalar_rules(Dumper)
Dumper.add_representer(str, _represent_text)


def dump(value: Any) -> str:
    """Return a dataclass as YAML that is read as an equal value."""
    return yaml.dump(
        to_jsonable_python(value),
        Dumper=Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=1 << 20,
    )
