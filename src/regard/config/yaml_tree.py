"""YAML text as a tree of values with the line of each, and back to text.

Settings of the command line are put on top of the tree.
"""

import dataclasses
import difflib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from regard.errors import InputError

MAXIMUM_BYTES = 1 << 20
"""The largest run file: a page of text, so more is another kind of file."""
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
        if isinstance(self.value, dict):
            return {
                key: node.plain(numbers_as_text=numbers_as_text)
                for key, node in self.value.items()
            }
        if isinstance(self.value, list):
            return [node.plain(numbers_as_text=numbers_as_text) for node in self.value]
        is_number = type(self.value) in (int, float)
        return self.text if numbers_as_text and is_number else self.value

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
        problem = ""
        if event.anchor:
            problem = "anchors (&) and aliases (*) are not read here"
        elif event.tag not in (None, "!"):
            problem = "tags (!) are not read here"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        return super().compose_node(parent, index)


Loader.yaml_implicit_resolvers = {}
add_scalar_rules(Loader)


def read(path: Path) -> tuple[Node, list[Problem]]:
    """Return the tree of a file, and problems that leave the rest readable.

    Raises:
        InputError: The file is missing, not UTF-8, too large or not YAML.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAXIMUM_BYTES + 1)
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; expected a YAML file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a directory; expected a YAML file") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
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


def parse(
    text: str, file: str, *, has_lines: bool = True
) -> tuple[Node, list[Problem]]:
    """Return the tree of a text; the value of an option has no lines.

    Raises:
        InputError: The text is not YAML.
    """
    converter = Converter(file, has_lines=has_lines)
    try:
        root = yaml.compose(text, Loader=Loader)
        if root is None:
            return Node(None, "", file, int(has_lines)), []
        return converter.convert(root, converter.line_of(root), ""), converter.problems
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"character {error.character:#04x} is not allowed"
        cause: Exception = error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        message = " ".join((error.problem or "cannot be read").split())
        if "\\t" in message:
            message = "a tab; indent with spaces"
        cause = error
    except RecursionError as error:
        raise InputError(f"{file}: nested too deeply") from error
    location = f"{file}:{line}" if has_lines else file
    raise InputError(f"{location}: not valid YAML: {message}") from cause


class Converter:
    """Makes nodes from those of the YAML reader.

    Args:
        file: The file of the text, or the option.
        has_lines: Whether nodes have lines; an option has none.
    """

    def __init__(self, file: str, *, has_lines: bool) -> None:
        self.file = file
        self.has_lines = has_lines
        self.problems: list[Problem] = []

    def line_of(self, node: yaml.Node) -> int:
        """Return the line of a node, 0 in an option."""
        return node.start_mark.line + 1 if self.has_lines else 0

    def convert(self, node: yaml.Node, line: int, path: str) -> Node:
        """Return a node with the line of its key."""
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = self.convert_mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            value = []
            for index, item in enumerate(node.value):
                place = f"{path}[{index}]"
                value.append(self.convert(item, self.line_of(item), place))
        else:
            try:
                value = _convert_scalar(node.tag.removeprefix(PREFIX), node.value)
            except ValueError:
                message = f"a number of {len(node.value)} digits is too long"
                self.problems.append(Problem(self.file, line, path, message))
                value = None
            return Node(value, node.value, self.file, line)
        return Node(value, "", self.file, line)

    def convert_mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Node]:
        """Return the entries of a mapping by their keys, which are different texts."""
        entries: dict[str, Node] = {}
        for key, value in node.value:
            line = self.line_of(key)
            name = key.value
            place = path
            if isinstance(key, yaml.ScalarNode) and key.tag == PREFIX + "str":
                place = join(path, name)
                if name not in entries:
                    entries[name] = self.convert(value, line, place)
                    continue
                first = entries[name].line
                message = f"given twice, first on line {first}; keep one of them"
            else:
                name = name if isinstance(key, yaml.ScalarNode) else "a list"
                message = f"key {name!r} is not text; quote it"
            self.problems.append(Problem(self.file, line, place, message))
        return entries


def _convert_scalar(tag: str, text: str) -> Any:
    match tag:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text)
        case "float":
            is_word = text[-1].isalpha()
            return float(text.replace(".", "") if is_word else text)
        case _:
            return text


def apply_setting(root: Node, setting: str) -> list[Problem]:
    """Set `key.sub=value` in the tree; return the problems that prevent it."""
    path, equals, text = setting.partition("=")
    path = path.strip()
    option = f"--set {path}"
    keys = path.split(".")
    if not equals or not all(keys):
        message = "expected key=value or key.sub=value"
        return [Problem(f"--set {setting}", 0, "", message)]
    node = Node(text, text, option, 0)
    problems: list[Problem] = []
    if not _is_plain_text(text):
        try:
            node, problems = parse(text, option, has_lines=False)
        except InputError as error:
            message = str(error).removeprefix(f"{option}: ")
            message = f"{message}; {_advise_quotes(path, text)}"
            return [Problem(option, 0, "", message)]
    *parents, last = keys
    entries = root.value
    for key in parents:
        if key not in entries or entries[key].value is None:
            entries[key] = Node({}, "", option, 0)
        entries = entries[key].value
        if not isinstance(entries, dict):
            message = f"{key} is not a mapping, so nothing can be set inside it"
            return [Problem(option, 0, path, message)]
    former = entries.get(last)
    if former is not None and not former.line:
        former = former.replaced
    entries[last] = replace(node, text=node.text or text, replaced=former)
    return problems


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


def _advise_quotes(path: str, text: str) -> str:
    if text.startswith(("[", "{")):
        pattern = "[A, B]" if text[0] == "[" else "{key: A}"
        return f"quote it for the shell: --set '{path}={pattern}'"
    return f"""quote the value: --set "{path}='{text}'\""""


def format_setting(path: str, value: "str | int | Sequence[str | int]") -> str:
    """Return the option that sets a key, quoted for the shell and for YAML."""
    is_list = not isinstance(value, str | int)
    texts = []
    for item in value if is_list else [value]:
        text = str(item)
        try:
            source = f"[{text}]" if is_list else text
            parsed = parse(source, "", has_lines=False)[0].plain()
        except InputError:
            parsed = None
        if parsed != ([item] if is_list else item):  # YAML would read another value
            text = json.dumps(item, ensure_ascii=False)
        texts.append(text)
    text = f"[{', '.join(texts)}]" if is_list else texts[0]
    return f"--set {shlex.quote(f'{path}={text}')}"


def join(path: str, key: str) -> str:
    """Return the path of a key inside the mapping at `path`."""
    return f"{path}.{key}" if path else key


def suggest(word: str, names: Sequence[str]) -> str:
    """Return the advice that ends a message about an unknown name."""
    matches = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
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
    style = '"' if needs_escapes else None
    return dumper.represent_scalar(PREFIX + "str", text, style)


add_scalar_rules(Dumper)
Dumper.add_representer(str, _represent_text)


def dump(value: Any) -> str:
    """Return a dataclass as YAML that is read as an equal value."""
    return yaml.dump(
        plain(value), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 20
    )


def plain(value: Any) -> Any:
    """Return a value as YAML and JSON have it: mappings, lists and scalars."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field for field in dataclasses.fields(value) if field.init]
        return {field.name: plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return str.__str__(value)
    return str(value) if isinstance(value, Path) else value
