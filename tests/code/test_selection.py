"""The selection that `make test` runs has every value of every parameter."""

from itertools import product

from tests.selection import each_choice


def test_every_value_is_chosen_by_few_cases():
    cases = [[("score", score), ("mask", mask)] for score, mask in product(range(7), range(5))]
    chosen = each_choice(cases)
    assert {value for index in chosen for value in cases[index]} == {value for case in cases for value in case}
    assert len(chosen) == 7


def test_tests_without_parameters_are_chosen():
    assert each_choice([[]]) == {0}
    assert each_choice([[], []]) == {0, 1}
