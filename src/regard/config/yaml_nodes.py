"""YAML text as a tree of values with the line of each."""

import difflib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from regard.errors import InputError

LARGEST_FILE = (
    1 << 20
)  # bytes; a run file is a page of text, so more is another kind of file
INTEGER = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*$")
NUMBER = re.compile(
    r"[-+]?(?:(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"
)
PREFIX = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Node:
    """A value with its file and line: a scalar, a list of nodes or a dict of nodes. `text` is the source of a scalar
    and of an option's value."""

    value: Any
    text: str
    file: str
    line: int  # 0: not from a file but from an option of the command line
    replaced: "Node | None" = None  # the value of the file that an option replaces

    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        return (
            [node.plain() for node in self.value]
            if isinstance(self.value, list)
            else self.value
        )

    def problem(self, path: str, what: str) -> "Problem":
        """A problem with the key `path` at this node's line."""
        return Problem(self.file, self.line, path, what)


@dataclass(frozen=True)
class Problem:
    """One mistake: its file and line, its key (`model.heads`) and what it is. As text it is one line."""

    file: str
    line: int
    path: str
    what: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        named = (
            place
            if not self.path or place == f"--set {self.path}"
            else f"{place}: {self.path}"
        )
        return f"{named}: {self.what}"


class _Loader(yaml.SafeLoader):
    """YAML's 1.2 reading of plain scalars: 1e-3 is a number; `no`, `on`, 12:30 and 2026-01-01 are text."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()
        refused = (
            "anchors (&) and aliases (*)"
            if event.anchor
            else None
            if event.tag in (None, "!")
            else "tags (!)"
        )
        if refused:
            raise yaml.MarkedYAMLError(
                problem=f"{refused} are not read here", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)


def add_number_rules(where: Any) -> None:
    """Give a loader or dumper class this file's rules for null, true, false, whole numbers and numbers."""
    where.add_implicit_resolver(
        PREFIX + "null", re.compile(r"(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]
    )
    where.add_implicit_resolver(
        PREFIX + "bool",
        re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"),
        list("tTfF"),
    )
    where.add_implicit_resolver(PREFIX + "int", INTEGER, list("-+0123456789"))
    where.add_implicit_resolver(PREFIX + "float", NUMBER, list("-+.0123456789"))


_Loader.yaml_implicit_resolvers = {}
add_number_rules(_Loader)


def read(path: Path) -> tuple[Node, list[Problem]]:
    """The tree of the file at `path`, with the problems that leave the rest readable, such as duplicate keys.

    Raises InputError (one line) for a file that is missing, empty, not UTF-8, too large or not YAML.
    """
    try:
        data = b"" if path.is_dir() else _start(path)
    except OSError as error:
        reason = (
            "no such file"
            if isinstance(error, FileNotFoundError)
            else f"cannot be read ({error.strerror})"
        )
        raise InputError(f"{path}: {reason}; expected a YAML file") from error
    if path.is_dir():
        raise InputError(f"{path}: is a directory; expected a YAML file")
    if len(data) > LARGEST_FILE:
        raise InputError(
            f"{path}: larger than {LARGEST_FILE} bytes; expected a short YAML file"
        )
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte {data[error.start]:#04x} at offset {error.start}"
        raise InputError(
            f"{path}:{line}: not UTF-8 ({found}); save the file as UTF-8"
        ) from error
    return parse(text, str(path), 1)


def _start(path: Path) -> bytes:
    """The first bytes of a file, enough to see that it is too large; a stream such as /dev/zero has no end."""
    with path.open("rb") as file:
        return file.read(LARGEST_FILE + 1)


def parse(text: str, file: str, first_line: int) -> tuple[Node, list[Problem]]:
    """The tree of `text`. With `first_line` 0 the text is an option's value and has no lines. Raises InputError."""
    try:
        root = yaml.compose(text, Loader=_Loader)
        problems: list[Problem] = []
        if root is None:
            return Node(None, "", file, first_line), problems
        return _convert(root, file, first_line > 0, "", problems), problems
    except yaml.YAMLError as error:
        raise InputError(_broken(error, text, file, first_line > 0)) from error
    except RecursionError as error:
        raise InputError(
            f"{file}: nested too deeply; expected a short YAML file"
        ) from error


def _broken(error: yaml.YAMLError, text: str, file: str, lines: bool) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    what = (
        getattr(error, "problem", None)
        or getattr(error, "reason", None)
        or "cannot be read"
    )
    line, advice = 1, ""
    if mark is not None:
        line = mark.line + 1
        if "\\t" in what:
            what, advice = "a tab", "; indent with spaces"
    elif isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        what = f"character {error.character:#04x} is not allowed"
    place = f"{file}:{line}" if lines else file
    return f"{place}: not valid YAML: {' '.join(what.split())}{advice}"


def _convert(
    node: yaml.Node,
    file: str,
    lines: bool,
    path: str,
    problems: list[Problem],
    line: int = 0,
) -> Node:
    line = (line or node.start_mark.line + 1) if lines else 0
    if isinstance(node, yaml.MappingNode):
        return Node(_mapping(node, file, lines, path, problems), "", file, line)
    if isinstance(node, yaml.SequenceNode):
        items = [
            _convert(item, file, lines, f"{path}[{i}]", problems)
            for i, item in enumerate(node.value)
        ]
        return Node(items, "", file, line)
    try:
        return Node(_scalar(node.tag, node.value), node.value, file, line)
    except ValueError:
        problems.append(
            Problem(
                file, line, path, f"a number of {len(node.value)} digits is too long"
            )
        )
        return Node(None, node.value, file, line)


def _mapping(
    node: yaml.MappingNode, file: str, lines: bool, path: str, problems: list[Problem]
) -> dict[str, Node]:
    entries: dict[str, Node] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1 if lines else 0
        if not isinstance(key, yaml.ScalarNode) or key.tag != PREFIX + "str":
            what = (
                repr(key.value)
                if isinstance(key, yaml.ScalarNode)
                else "a list or mapping"
            )
            problems.append(
                Problem(
                    file,
                    line,
                    path,
                    f"key {what} is not text; put a name there, or quote it",
                )
            )
            continue
        inner = f"{path}.{key.value}" if path else key.value
        if key.value in entries:
            first = f"; first on line {entries[key.value].line}" if lines else ""
            problems.append(
                Problem(file, line, inner, f"given twice{first}; keep one of them")
            )
            continue
        entries[key.value] = _convert(value, file, lines, inner, problems, line)
    return entries


def _scalar(tag: str, text: str) -> Any:
    match tag.removeprefix(PREFIX):
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text)
        case "float":
            return (
                float(text.replace(".inf", "inf").replace(".nan", "nan"))
                if text[-1:].isalpha()
                else float(text)
            )
        case _:
            return text


def place(root: Node, override: str) -> list[Problem]:
    """Set `key.sub=value`, the value in YAML or a text as `_is_text` has it, in the tree; return the problems that
    prevent it."""
    path, equals, text = override.partition("=")
    path = path.strip()
    file = f"--set {path}"
    if not equals or not all(path.split(".")):
        return [
            Problem(f"--set {override}", 0, "", "expected key=value or key.sub=value")
        ]
    try:
        node, problems = (
            (Node(text, text, file, 0), []) if _is_text(text) else parse(text, file, 0)
        )
    except InputError as error:
        return [
            Problem(
                file,
                0,
                "",
                f"{str(error).removeprefix(f'{file}: ')}; {_quoted(path, text)}",
            )
        ]
    *parents, last = path.split(".")
    holder = root
    for depth, key in enumerate(parents):
        if key not in holder.value or holder.value[key].value is None:
            holder.value[key] = Node({}, "", file, 0)
        holder = holder.value[key]
        if not isinstance(holder.value, dict):
            above = ".".join(parents[: depth + 1])
            return [
                Problem(
                    file,
                    0,
                    path,
                    f"{above} is not a mapping, so nothing can be set inside it",
                )
            ]
    before = holder.value.get(last)
    before = before if before is None or before.line else before.replaced
    holder.value[last] = replace(node, text=node.text or text, replaced=before)
    return problems


def setting(path: str, value: "str | int | Sequence[str | int]") -> str:
    """The option that sets a key to a text, a number or a list of them, in such quotation marks that the shell and YAML
    leave it as it is: `--set 'data.label="2019"'`."""
    alone = isinstance(value, str | int)
    written = (
        _as_yaml(value, False)
        if alone
        else f"[{', '.join(_as_yaml(each, True) for each in value)}]"
    )
    return f"--set {shlex.quote(f'{path}={written}')}"


def _as_yaml(value: str | int, listed: bool) -> str:
    """A number, or a text in quotation marks where it would be another value without."""
    if isinstance(value, int):
        return str(value)
    try:
        found = parse(f"[{value}]" if listed else value, "", 0)[0].plain()
    except InputError:
        found = None
    return (
        value
        if found == ([value] if listed else value)
        else json.dumps(value, ensure_ascii=False)
    )


def _is_text(text: str) -> bool:
    """Whether a value is a text though YAML has another meaning for it: a single sign, as a delimiter is, but for ~ and
    a list or mapping that is not closed; and outside of quotation marks what would begin a comment, as the column
    `# of words`."""
    sign = len(text) == 1 and not text.isalnum() and text not in "~[{"
    comment = text.startswith("#") or (" #" in text and text[0] not in "[{'\"")
    return sign or comment


def _quoted(path: str, text: str) -> str:
    """How to give an option a value that is no YAML: a list or mapping in one piece, other text in quotation marks."""
    if text.startswith(("[", "{")):
        pattern = "[A, B]" if text[0] == "[" else "{key: A}"
        return f"quote the whole for the shell, as --set '{path}={pattern}'"
    return f"""quote the value, as --set "{path}='{text}'\""""


def join(path: str, key: str) -> str:
    """The path of a key inside the mapping at `path`."""
    return f"{path}.{key}" if path else key


def nearest(word: str, known: Sequence[str]) -> str:
    """The advice that ends a message about an unknown name."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return (
        f"expected one of {', '.join(map(repr, known))}"
        if known
        else "expected no keys here"
    )
