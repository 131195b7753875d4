"""How much a lookup writes of each value: attention by norms."""

from torch import Tensor, nn

from regard.attention.heads import MultiHead


class ValueNorms:
    """||a_ti v_i||, and within a `MultiHead` ||a_ti f(v_i)|| with f(v) = W_o^h (W_v^h v + b_v^h), for each head
    (Kobayashi et al. 2020, 2004.10102, section 3): a `measure` for recording `model`.

    A value of norm 0 is read without effect, whatever its weight; the weights alone do not say so.
    """

    def __init__(self, model: nn.Module):
        self.heads = {id(each.attend): each for each in model.modules() if isinstance(each, MultiHead)}

    def __call__(self, module: nn.Module, weights: Tensor, value: Tensor) -> Tensor:
        """Weights `(*batch, query, key)` of values `(*batch, key, value_width)` -> norms `(*batch, query, key)`."""
        heads = self.heads.get(id(module))
        written = value if heads is None else heads.written(value)
        return weights * written.norm(dim=-1)[..., None, :]
