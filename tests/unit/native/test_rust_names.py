"""Rust's two encodings of names, read and refused. The names were made by rustc 1.95."""

import time

import pytest

from postmortem import _native

CRATE = "Csh537bOAIRKx_3lib"


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
        (f"_RNCNv{CRATE}9run_batch0B3_", "lib::run_batch::{closure#0}"),
        (f"_RNCNv{CRATE}9run_batchs_0B3_", "lib::run_batch::{closure#1}"),
        (f"_RNvM{CRATE}INtB2_6LoaderfKj3_E4stepB2_", "<lib::Loader<f32, 3>>::step"),
        (
            f"_RNvXs_{CRATE}INtB4_6LoaderfKj3_EINtB4_7SamplerfE4drawB4_",
            "<lib::Loader<f32, 3> as lib::Sampler<f32>>::draw",
        ),
        (
            f"_RINv{CRATE}4sortShRelNtB2_3RowKb1_Kc61_E",
            "lib::sort::<[u8], &str, i32, lib::Row, true, 'a'>",
        ),
        (f"_RINv{CRATE}1fFUKCThlEEuE", 'lib::f::<unsafe extern "C" fn((u8, i32))>'),
        (
            f"_RINv{CRATE}1fDINtNtC4core3ops2FnTRhEEp6OutputbNtC4core4SendEL_E",
            "lib::f::<dyn core::ops::Fn<(&u8,), Output = bool> + core::Send>",
        ),
        (f"_RINv{CRATE}1fAhj10_Kan7f_OPxE", "lib::f::<[u8; 16], -127, *mut *const i64>"),
        (f"_RNv{CRATE}4step.llvm.1234567", "lib::step"),
        ("_ZN4core9panicking9panic_fmt17h0123456789abcdefE", "core::panicking::panic_fmt"),
        (
            "_ZN66_$LT$lib..Loader$LT$T$C$_$GT$$u20$as$u20$lib..Sampler$LT$T$GT$$GT$4draw17h5a97f3c1d2e4b608E",
            "<lib::Loader<T,_> as lib::Sampler<T>>::draw",
        ),
        ("_ZN3lib4step17h5a97f3c1d2e4b608E.llvm.123", "lib::step"),
    ],
)  # fmt: skip
def test_rust_name(mangled: str, name: str) -> None:
    assert _native.demangle([mangled]) == [name]


@pytest.mark.parametrize(
    "name",
    [
        "_R",
        "_RNv",
        "_RNvC",
        "_RC9a",
        "_R0NvC3foo1f",  # a version of the encoding that does not exist yet
        "_RB_",  # a reference to itself
        "_RNvB9_1f",  # a reference forward
        "_RNvC3foo1f!",
        "_Rust_like_c_function",
        "_RC99999999999999999999999a",
        "_R" + "I" * 5000,
        "_RIC1a" + "T" * 3000,
    ],
)
def test_what_is_no_rust_name_stays(name: str) -> None:
    assert _native.demangle([name]) == [name]


def test_cpp_name_with_a_part_like_a_hash_stays_cpp() -> None:
    """Only 16 digits with some variety at the very end are Rust's hash."""
    assert _native.demangle(["_ZN3lib17h0000000000000000E"]) == ["lib::h0000000000000000"]
    assert _native.demangle(["_ZN3lib4stepEv"]) == ["lib::step()"]


def test_references_to_references_end() -> None:
    """Each tuple holds the one before twice: 2**200 types in 1,400 bytes."""
    text, last = "IC1aTeeE", 4
    for _ in range(200):
        here = len(text)
        reference = f"B{_base62(last)}"
        text += f"T{reference}{reference}E"
        last = here
    name = f"_R{text}E"
    began = time.monotonic()
    assert len(_native.demangle([name])[0]) < 100_000
    assert time.monotonic() - began < 30


def _base62(value: int) -> str:
    if value == 0:
        return "_"
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    value -= 1
    out = ""
    while True:
        value, rest = divmod(value, 62)
        out = digits[rest] + out
        if value == 0:
            return f"{out}_"
