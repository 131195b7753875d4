"""The device and the precision of each setting."""

import pytest
import torch

from regard.training.devices import choose_device, choose_precision, supports_bf16_products


def test_what_is_named_is_taken():
    assert choose_device("cpu") == "cpu"
    assert [choose_precision(name, "cpu") for name in ("fp32", "bf16")] == ["fp32", "bf16"]


@pytest.mark.parametrize(("able", "precision"), [(False, "fp32"), (True, "bf16")])
def test_auto_is_bf16_where_the_processor_multiplies_it(able: bool, precision: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: able)
    assert choose_precision("auto", "cpu") == precision


def test_no_bf16_on_a_device_that_nobody_knows():
    assert not supports_bf16_products("mps")
