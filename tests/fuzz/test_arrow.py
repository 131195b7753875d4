"""Damaged Arrow and Parquet files end in one line: a process that reads them is not ended by a memory fault."""

import subprocess
import sys
from pathlib import Path

import pytest

READ = """
import random, sys
from pathlib import Path
from regard.data.tables import Tabular
from regard.errors import InputError

path, source = sys.argv[1], random.Random(int(sys.argv[2]))
columns = {"text": "text", "label": "label"}
whole = Path(path).read_bytes()
for number in range(int(sys.argv[3])):
    content = bytearray(whole)
    for _ in range(source.randint(1, 4)):
        content[source.randrange(len(content))] = source.randrange(256)
    Path(path).write_bytes(content)
    try:
        list(Tabular(skip_bad=True).stream_rows(path, columns, numbers=("label",)))
    except InputError:
        continue
"""


@pytest.mark.parametrize("name", ["a.arrow", "a.parquet"])
def test_damaged_tables_are_refused(name: str, tmp_path: Path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"text": [f"text {number}" for number in range(20)], "label": list(range(20))})
    path = str(tmp_path / name)
    if name.endswith("parquet"):
        parquet.write_table(table, path)
    else:
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    found = subprocess.run([sys.executable, "-c", READ, path, "1", "300"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
