"""Dataclasses as YAML text, which `yaml_file.load` reads as an equal value."""

import dataclasses
from pathlib import Path
from typing import Any

import yaml

from regard.config import yaml_nodes


def dump(value: Any) -> str:
    """A dataclass as YAML with its defaults, which `yaml_file.load` reads as an equal value."""
    return yaml.dump(
        plain(value), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1 << 20
    )


class Dumper(yaml.SafeDumper):
    """Quote text that this package or a YAML 1.1 reader would parse as another type."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # in quotes of the other kinds a line break of any sort comes back as a space or a plain newline
    style = '"' if len(text.splitlines()) > 1 or text != text.strip() else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


yaml_nodes.add_number_rules(Dumper)
Dumper.add_representer(str, _text)


def plain(value: Any) -> Any:
    """A value as YAML and JSON have it: dataclasses as mappings, tuples as lists, paths as text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.init
        }
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, str):
        return str.__str__(value)
    return str(value) if isinstance(value, Path) else value
