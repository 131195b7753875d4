import logging
from typing import Any

import pytest

from regard.errors import InputError
from regard.runs.train import check_resume

SAVED: dict[str, Any] = {
    "format_version": 1,
    "architecture": "bahdanau",
    "world_size": 2,
    "tokenizer": "ab12",
    "configuration": {"training": {"tokens": 512, "betas": (0.9, 0.98)}, "model": {"width": 7}},
    "data": {"train": "cd34", "valid": "ef56"},
}


@pytest.mark.parametrize(("key", "value"), [("format_version", 2), ("architecture", "luong"), ("tokenizer", "ff00")])
@pytest.mark.parametrize("allow_change", [False, True])
def test_what_a_checkpoint_depends_on_must_be_equal(key: str, value: object, allow_change: bool) -> None:
    with pytest.raises(InputError) as caught:
        check_resume(SAVED, {**SAVED, key: value}, allow_change)
    expected = f"cannot resume: {key}: {SAVED[key]!r} in the run, {value!r} now; start a new run with another --out"
    assert str(caught.value) == expected


def test_another_number_of_processes_is_no_hindrance() -> None:
    check_resume(SAVED, {**SAVED, "world_size": 4}, False)


def test_a_part_that_one_side_lacks_is_a_difference() -> None:
    without = {key: value for key, value in SAVED.items() if key != "tokenizer"}
    with pytest.raises(InputError, match=r"tokenizer: 'ab12' in the run, \(none\) now"):
        check_resume(SAVED, without, True)


def test_changes_are_listed_with_both_values_or_allowed(caplog: pytest.LogCaptureFixture) -> None:
    configuration = {"training": {"tokens": 1024, "betas": [0.9, 0.98], "clip": 1.0}, "model": {"width": 7}}
    current = {**SAVED, "configuration": configuration, "data": {"train": "0000", "valid": "ef56"}}
    with pytest.raises(InputError) as caught:
        check_resume(SAVED, current, False)
    advice = "; undo it or give --allow-change"
    lines = [
        "configuration.training.tokens: 512 in the run, 1024 now",
        "configuration.training.clip: (none) in the run, 1.0 now",
        "data.train: 'cd34' in the run, '0000' now",
    ]
    assert str(caught.value).splitlines() == [f"cannot resume: {line}{advice}" for line in lines]
    with caplog.at_level(logging.WARNING, "regard"):
        check_resume(SAVED, current, True)
    assert caplog.messages == [f"resuming with a change: {line}" for line in lines]


def test_nothing_changed_is_silent_even_when_json_made_lists_of_tuples(caplog: pytest.LogCaptureFixture) -> None:
    configuration = {"model": {"width": 7}, "training": {"betas": [0.9, 0.98], "tokens": 512}}
    check_resume(SAVED, {**SAVED, "configuration": configuration}, False)
    assert caplog.messages == []
