"""The names of views: each is drawn, and has its options."""

from typing import get_args

from regard.pictures.views import VIEWS
from regard.tasks.options import VIEW_OPTIONS, ViewName


def test_every_view_is_drawn_and_has_its_options():
    assert set(get_args(ViewName)) == {*VIEWS, "entropy"} == set(VIEW_OPTIONS)
