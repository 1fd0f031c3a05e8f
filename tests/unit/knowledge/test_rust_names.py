"""Rust's paths as the report shows them."""

import pytest

from postmortem.diagnose.names import short
from postmortem.knowledge.rust_names import flattened
from postmortem.knowledge.symbols import symbol


@pytest.mark.parametrize(
    ("name", "flat"),
    [
        ("<lib::Loader<f32, 3> as lib::Sampler<f32>>::draw", "lib::Loader<f32, 3>::draw"),
        ("<lib::Loader<f32>>::step::{closure#0}", "lib::Loader<f32>::step::{closure#0}"),
        ("<[u8]>::sort::<u8>", "slice::sort::<u8>"),
        ("<<A as B<C>>::D as E>::f", "A::D::f"),
        ("<&mut dyn core::fmt::Write + Send as X>::y", "core::fmt::Write::y"),
        ("<fn(u8) -> u8 as T>::c", "fn::c"),
        ("<(u8, u16) as T>::c", "tuple::c"),
        ("alloc::boxed::{impl#28}::call_once<()>", "alloc::boxed::call_once<()>"),
        ("<lambda(int)>::operator()", "<lambda(int)>::operator()"),
        ("<T as", "<T as"),
        ("<" * 40 + ">" * 40, "<" * 40 + ">" * 40),
        ("std::map<int, int>::at(int)", "std::map<int, int>::at(int)"),
    ],
)
def test_flattened(name: str, flat: str) -> None:
    assert flattened(name) == flat


def test_report_and_titles_name_the_type() -> None:
    name = "<lib::Loader<f32, 3> as lib::Sampler<f32>>::draw::{closure#0}"
    assert symbol(name).outline == "lib::Loader<…>::draw"
    assert symbol(name).within_lambda
    assert short(name) == "lib::Loader<…>::draw::{closure#0}"
