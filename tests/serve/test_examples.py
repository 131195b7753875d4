"""The container file and the systemd unit of examples/serving keep to the command that exists."""

import json
import re
import shlex

from regard.cli.main import application
from tests.code.tree import ROOT

FOLDER = ROOT / "examples" / "serving"


def parses(arguments: list[str]) -> bool:
    """Whether the command line takes them; a wrong option raises."""
    command, _, _ = application().parse_args(arguments, print_error=False, exit_on_error=False)
    return command.__name__ == "serve"


def test_the_container_starts_a_command_that_exists_as_a_user_without_rights():
    text = (FOLDER / "Containerfile").read_text(encoding="utf-8")
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.M)
    (runs,) = re.findall(r"^CMD (\[.*\])$", text, re.M)
    program, *arguments = json.loads(entry) + json.loads(runs)
    assert program == "regard"
    assert parses(arguments)
    assert re.search(r"^USER [1-9]\d*$", text, re.M)


def test_the_unit_starts_a_command_that_exists():
    text = (FOLDER / "regard.service").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.M)
    program, *arguments = shlex.split(line)
    assert program.endswith("/regard")
    assert parses(arguments)
    assert "DynamicUser=yes" in text
