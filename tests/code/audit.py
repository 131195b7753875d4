"""Known vulnerabilities of the packages in hashes.txt, by pip-audit, whose environment runs this module."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HASHES = Path(__file__).parents[2] / "hashes.txt"


def verdict(report: dict[str, Any] | None, error: str) -> tuple[list[str], int]:
    """The lines to print and the exit code: 1 with vulnerabilities, 0 without, and 0 if nothing could be looked up."""
    packages = [] if report is None else report["dependencies"]
    known = [each for each in packages if "vulns" in each]
    if not known:
        why = error.strip().splitlines()[-1] if error.strip() else "no package is known to it"
        return [f"not audited: the database of vulnerabilities cannot be reached here ({why[:200]})"], 0
    lines = [
        f"{each['name']} {each['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'no version'}"
        for each in known
        for found in each["vulns"]
    ]
    missed = len(packages) - len(known)
    end = f"{len(known)} packages audited, {len(lines)} vulnerabilities" + (f", {missed} unknown" if missed else "")
    return [*lines, end], int(bool(lines))


def main() -> int:
    """Audit, print and return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "audit.json"
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-r", str(HASHES)]
        done = subprocess.run([*command, "-f", "json", "-o", str(out)], capture_output=True, text=True, check=False)
        report = json.loads(out.read_text(encoding="utf-8")) if out.exists() and out.stat().st_size else None
    lines, code = verdict(report, done.stderr if report is None else "")
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
