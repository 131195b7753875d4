"""The weights of classes in the loss."""

import pytest
import torch
from torch.nn import functional

from regard.errors import InputError
from regard.runs import run_file
from regard.runs.recipes import path_of
from regard.tasks.class_prediction import compute_class_weights, count_labels, describe_constant_accuracy
from regard.tasks.classification.data import Labelled
from regard.tasks.classification.training import ClassOutputs

LABELS = ["a", "b", "c"]
EXAMPLES = [Labelled(("x",), label, f"t:{number}") for number, label in enumerate("aaaaabbbca", 1)]


def test_balanced_weights_give_every_class_the_same_sum():
    weights = compute_class_weights("balanced", LABELS, count_labels(EXAMPLES))
    assert [weight * count for weight, count in zip(weights, (6, 3, 1), strict=True)] == pytest.approx([10 / 3] * 3)
    assert compute_class_weights(None, LABELS, count_labels(EXAMPLES)) == ()


def test_the_loss_of_an_example_is_multiplied_by_the_weight_of_its_class():
    torch.manual_seed(1)
    logits, targets = torch.randn(5, 3), torch.tensor([0, 2, 1, 2, 2])
    plain = functional.cross_entropy(logits, targets, reduction="none")
    found = ClassOutputs(("a", "b", "c"), (1.0, 2.0, 7.0)).loss(logits, targets, 0.0)
    torch.testing.assert_close(found, (plain * torch.tensor([1.0, 7.0, 2.0, 7.0, 7.0])).sum())
    torch.testing.assert_close(ClassOutputs(("a", "b", "c")).loss(logits, targets, 0.0), plain.sum())


def test_the_accuracy_of_a_constant_prediction():
    assert describe_constant_accuracy(count_labels(EXAMPLES)) == "always 'a' has an accuracy of 60"


@pytest.mark.parametrize("value", ["balanced", "null"])
def test_run_files_have_them(value: str):
    files = ["data.train=a.tsv", f"class_weights={value}"]
    found = run_file.read(path_of("classify"), files)
    assert run_file.dump(found).count("class_weights") == 1
    assert found.class_weights in ("balanced", None)  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("value", ["{pos: 2}", "even"])
def test_other_weights_are_refused(value: str):
    with pytest.raises(InputError, match="class_weights: got"):
        run_file.read(path_of("classify"), ["data.train=a.tsv", f"class_weights={value}"])
