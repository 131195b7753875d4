"""An audit counts what it says: ranks, permuted weights, predictions that change."""

import numpy as np
import pytest
import torch

from regard import intervene, record
from regard.attention import Attend
from regard.attention.masks import padding
from regard.attention.memory import Memory
from regard.attention.scores import Dot
from regard.errors import InputError
from regard.experiments.audit import Agreement, Shuffle, audit, correlate_ranks, diverge
from tests.serve import toys


def test_measures():
    assert correlate_ranks(np.array([1.0, 2, 2, 4]), np.array([0.1, 0.3, 0.3, 9])) == pytest.approx(1)
    assert correlate_ranks(np.array([1.0, 2, 3]), np.array([3.0, 1, 2])) == pytest.approx(-0.5)
    assert correlate_ranks(np.ones(3), np.array([3.0, 1, 2])) == 0
    one, other = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    assert float(diverge(one, other)) == pytest.approx(np.log(2))
    assert float(diverge(one, one)) == 0
    agreement = Agreement()
    agreement.add(np.array([0.2, 0.8]), np.array([3.0, 1.0]))
    assert (agreement.hits, agreement.correlations) == ([False], [pytest.approx(-1)])


def test_shuffled_weights_are_the_same_ones_on_keys_that_may_be_read():
    torch.manual_seed(1)
    reader, query, states = Attend(Dot()), torch.randn(2, 3, 5), torch.randn(2, 6, 5)
    memory = Memory(states, states, padding(torch.tensor([6, 4]), 6))
    with record(reader) as before:
        reader(query, memory)
    with intervene(reader, Shuffle()), record(reader) as after:
        reader(query, memory)
    torch.testing.assert_close(after[""].sort(-1).values, before[""].sort(-1).values)
    assert not after[""][1, :, 4:].any()
    assert not torch.equal(after[""], before[""])


@pytest.mark.parametrize(
    "make", [lambda: toys.translator("transformer"), pytest.param(toys.translator, marks=pytest.mark.slow)]
)
def test_an_audit(make, monkeypatch: pytest.MonkeyPatch):
    """Other weights are searched for the whole output."""
    run, module, counts = make(), "regard.experiments.audit.diverge", []
    monkeypatch.setattr(module, lambda one, other: counts.append(one.shape[-2]) or diverge(one, other))
    found = audit(run, ["ein Haus", "das Haus"])
    assert {*counts} == {len(item.text.split()) + 1 for item in run.predict(["ein Haus", "das Haus"])}
    assert [*found.kinds] == [kind for kind in run.kinds if kind not in ("effect", "integrated")]
    assert found.changed.keys() == {"shuffled weights", "uniform weights"}
    assert len(found.adversaries) == 2
    assert all(0 <= share <= 1 for share in [*found.changed.values(), *found.heads.values()])
    assert all(len(row) == 5 for row in found.misled)
    page = found.page("<toy>")
    assert "Does attention explain &lt;toy&gt;?" in page
    assert found.verdict.split(" Of ")[0].replace("'", "&#x27;") in page
    with pytest.raises(InputError, match="no example to audit"):
        audit(run, [])
    with pytest.raises(InputError, match="a run of the task language-model cannot be audited"):
        audit(toys.language_model(), ["das Haus"])
    found = audit(toys.tagger(), ["das Haus ist alt"])
    assert found.kinds.keys() >= {"weights", "gradient"}
    assert not found.adversaries
