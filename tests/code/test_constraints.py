"""Every package that is installed has its version in constraints.txt and its hash in hashes.txt."""

import pytest

from tests.code.audit import verdict
from tests.code.constraints import HASHES, faults, installed, listed


def test_every_package_is_listed_with_a_hash():
    assert len(installed()) > 100
    assert faults() == []


def test_a_package_without_a_hash_is_seen(monkeypatch: pytest.MonkeyPatch):
    without = {name: (version, None) for name, (version, _) in listed(HASHES).items()}
    monkeypatch.setattr("tests.code.constraints.listed", lambda path: without)
    assert all(line.endswith("has no hash") for line in faults())
    assert len(faults()) == len(without)


def test_an_audit_says_what_it_found_and_when_it_could_not_look():
    package = {"name": "a", "version": "1", "vulns": []}
    broken = package | {"vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
    unknown = {"name": "b", "skip_reason": "not found"}
    assert verdict({"dependencies": [package, unknown]}, "") == (
        ["1 packages audited, 0 vulnerabilities, 1 unknown"],
        0,
    )
    assert verdict({"dependencies": [broken]}, "") == (
        ["a 1: CVE-1, fixed in 2", "1 packages audited, 1 vulnerabilities"],
        1,
    )
    for report, error in ((None, "x\nno connection\n"), ({"dependencies": [unknown]}, "")):
        lines, code = verdict(report, error)
        assert code == 0
        assert lines[0].startswith("not audited: the database of vulnerabilities cannot be reached here")
