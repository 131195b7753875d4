"""The pictures of flows show the calls that happened."""

import torch
from torch import Tensor, nn

from docs.making.flow import Best, watching
from docs.making.flow_picture import Arrow, picture, tracked, written


class Looping(nn.Module):
    """Three steps of a cell on what a layer made of the whole, with that whole beside what came of them."""

    def __init__(self):
        super().__init__()
        self.layer, self.cell, self.last = nn.Linear(5, 7), nn.RNNCell(7, 7), nn.Linear(14, 2)
        self.best = Best()

    def forward(self, inputs: Tensor) -> Tensor:
        made, state = self.layer(inputs), inputs.new_zeros(len(inputs), 7)
        for step in made.unbind(1):
            state = self.cell(step, state)
        return self.best(self.last(torch.cat([state, made[:, 0] * 2], -1)))


def test_a_flow_has_shapes_and_makers_through_what_is_no_part():
    model, inputs = Looping(), torch.randn(2, 3, 5)
    with watching(model, ["layer", "cell", "last", "best"], {"inputs": inputs}) as flow:
        result = model(inputs)
    boxes = flow.boxes
    assert [*boxes] == ["inputs", "layer", "cell", "last", "best"]
    assert boxes["layer"].given == [[(2, 3, 5)]]
    assert boxes["cell"].given == [[(2, 7), (2, 7)]] * 3
    assert boxes["best"].gave == [[(2,)]]
    assert result.shape == (2,)
    assert boxes["layer"].sources == {"inputs": True}
    assert boxes["cell"].sources == {"layer": True, "cell": False}  # from its own call before
    assert boxes["last"].sources == {"cell": True, "layer": True}
    assert boxes["best"].sources == {"last": True}


def test_parts_inside_parts_are_left_out_leaves_are_known_and_nothing_stays_on_the_model():
    model, leaf = nn.Sequential(nn.Sequential(nn.Linear(3, 2))), torch.randn(5, 3, requires_grad=True)
    with watching(model, ["0", "0.0"], {"leaf": leaf}) as flow:
        assert "forward" in vars(model[0])
        model(leaf * 2)
    assert [*flow.boxes] == ["leaf", "0"]
    assert flow.boxes["0"].sources == {"leaf": True}
    assert not {"forward", "loss", "read"} & set(vars(model[0]))


def test_shapes_are_written_by_the_names_of_their_sizes():
    names = {2: "B", 7: "W"}
    assert written([[(2, 7), (2, 5)]], names) == "(B, W) (B, 5)"
    assert written([[(2, 0, 7)], [(2, 4, 7)]], names) == "(B, 0..4, W)"
    assert written([[()]], names) == "()"


def test_no_arrow_lies_on_another():
    order = ["a", "b", "c", "d"]
    arrows = [Arrow("a", "c", False), Arrow("a", "d", False), Arrow("b", "d", False), Arrow("c", "c", True)]
    found = tracked(arrows, order, set())
    assert len({found[arrow] for arrow in arrows[:3]}) == 3
    assert found[arrows[3]] not in (found[arrows[1]], found[arrows[2]])
    assert tracked([Arrow("a", "b", False)], order, set())[Arrow("a", "b", False)][0] == -1


def test_a_picture_stands_in_one_lane_or_two():
    model, inputs = Looping(), torch.randn(2, 3, 5)
    with watching(model, ["layer", "cell", "last", "best"], {"inputs": inputs}) as flow:
        model(inputs)
    one = picture(flow, {2: "B"}, title="one", lanes=("none", "right"))
    two = picture(flow, {2: "B"}, title="two", lanes=("layer", "right"))
    assert two.get_size_inches()[0] > one.get_size_inches()[0]
    assert [text.get_text() for text in one.texts if "cell" in text.get_text()] == ["cell  × 3"]
