"""Metrics of predicted numbers: correlations and errors."""

from torch import Tensor

from regard.shapes import Float


def pearson(
    predicted: Float[Tensor, " example"], expected: Float[Tensor, " example"]
) -> float:
    """Pearson's correlation, -1 to 1:

        r = sum (p - mean p) (e - mean e) / sqrt(sum (p - mean p)^2 sum (e - mean e)^2)

    0 where either side is constant, which has no correlation.
    """
    if any(each.min() == each.max() for each in (predicted, expected)):
        return 0.0
    first, second = (
        each.double() - each.double().mean() for each in (predicted, expected)
    )
    return float(first @ second / (first.norm() * second.norm()))


def spearman(
    predicted: Float[Tensor, " example"], expected: Float[Tensor, " example"]
) -> float:
    """Spearman's correlation, -1 to 1: Pearson's of the ranks, where equal numbers share the mean of their ranks."""
    return pearson(ranks(predicted), ranks(expected))


def ranks(numbers: Float[Tensor, " example"]) -> Float[Tensor, " example"]:
    """The rank of each number, from 1; equal numbers share the mean of their ranks."""
    _, place, counts = numbers.unique(return_inverse=True, return_counts=True)
    last = counts.cumsum(0).double()
    return (last - (counts - 1) / 2)[place]


def number_metrics(
    predicted: Float[Tensor, " example"], expected: Float[Tensor, " example"]
) -> dict[str, float]:
    """pearson and spearman, -1 to 1; mean-squared-error and mean-absolute-error, in the square of the numbers' unit and
    in their unit."""
    errors = predicted.double() - expected.double()
    return {
        "pearson": pearson(predicted, expected),
        "spearman": spearman(predicted, expected),
        "mean-squared-error": float(errors.square().mean()),
        "mean-absolute-error": float(errors.abs().mean()),
    }
