"""One name per demangler and oddity, then names that want to hurt."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postmortem.knowledge.symbols import LONGEST, Symbol, symbol


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("abort", "abort"),
        ("__GI_abort", "abort"),
        ("__GI___clock_nanosleep", "__clock_nanosleep"),
        ("memcpy@@GLIBC_2.14", "memcpy"),
        ("malloc@plt", "malloc"),
        ("std::terminate()", "std::terminate"),
        ("__cxxabiv1::__terminate(void (*)())", "__cxxabiv1::__terminate"),
        ("A::f(int) const", "A::f"),
        ("gloo::(anonymous namespace)::A::run() const &", "gloo::A::run"),
        ("void (anonymous namespace)::f<3>(int)", "f"),
        ("decltype(auto) foo<int>(int)", "foo"),
        ("decltype (((forward<int>)({parm#1}))()) c10::invoke<int>(int)", "c10::invoke"),
        ("foo[abi:cxx11](int)", "foo"),
        ("std::thread::_State_impl<std::thread::_Invoker<T> >::_M_run(void)",
         "std::thread::_State_impl::_M_run"),
        ("torch::autograd::Node::operator()(std::vector<at::Tensor>&&)",
         "torch::autograd::Node::operator()"),
        ("operator new(unsigned long)", "operator new"),
        ("A::operator bool() const", "A::operator bool"),
        ("A::operator->() const", "A::operator->"),
        ("bool A::operator<(B const&) const", "A::operator<"),
        ("std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&)",
         "std::operator<<"),
        ("non-virtual thunk to A::run()", "A::run"),
        ("std::__cxx11::basic_string<char, T>::_M_append(char const*)", "std::string::_M_append"),
        ("<T as core::fmt::Debug>::fmt", "T::fmt"),
        ("<signal handler called>", "<signal handler called>"),
        ("_INTERNAL_25_src_kmp_barrier_cpp_5de4d1d3::__kmp_hyper_barrier_release(int)",
         "__kmp_hyper_barrier_release"),
        ("A<(n<8), int>::f(int)", "A::f"),
        ("A<(n>8), int>::f(int)", "A::f"),
        ("A<B[2]>::f(int (&) [3])", "A::f"),
        ("f({unnamed type#1}, int)", "f"),
        ("f(a})::g()", "f::g"),
        ("??", "??"),
        ("", ""),
    ],
)  # fmt: skip
def test_bare_name_has_no_parameters_return_type_or_template_arguments(
    name: str, bare: str
) -> None:
    assert symbol(name).bare == bare


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::foo<int>(int)::{lambda(int)#1}::operator()(int) const",
        "at::native::foo(int)::'lambda'(int)::operator()(int) const",
        "at::native::foo(int)::<lambda(int)>::operator()(int) const",
        "at::native::foo(int)::{lambda()#1}::operator()() const::{lambda(float)#2}::_FUN(float)",
        "at::native::foo::{{closure}}",
    ],
)
def test_a_lambda_is_named_after_the_function_that_it_stands_in(name: str) -> None:
    found = symbol(name)
    assert found.within_lambda
    assert found.bare == "at::native::foo"


def test_a_lambda_in_template_arguments_does_not_make_the_function_one() -> None:
    found = symbol("std::__invoke_impl<void, start_watchdog(int)::<lambda()> >")
    assert found == Symbol("std::__invoke_impl", "std::__invoke_impl<…>")


@pytest.mark.parametrize(
    ("name", "bare", "marks"),
    [
        ("__gnu_cxx::__verbose_terminate_handler() [clone .cold.1]",
         "__gnu_cxx::__verbose_terminate_handler", ("cold",)),
        ("_int_free.part.0.cold", "_int_free", ("cold", "part")),
        ("f.constprop.0", "f", ("constprop",)),
        ("f.lto_priv.3", "f", ()),
        ("a.out.main", "a.out.main", ()),
        ("version.2", "version.2", ()),
    ],
)  # fmt: skip
def test_what_the_compiler_split_off_is_a_mark(
    name: str, bare: str, marks: tuple[str, ...]
) -> None:
    found = symbol(name)
    assert (found.bare, found.marks) == (bare, marks)


HOSTILE = [
    "<", ">", "(", ")", "a<(", "{lambda(", "operator<", "::", " ", "a ", ".", ".1", "a.cold",
    "(<<<<<<)", "[clone ", "'lambda'", "f<a>::b", "decltype(", "(anonymous namespace)::", "\x00",
    "\x01", "<(<<<<<<<<<<",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_name_of_a_megabyte_costs_no_more_than_its_first_part(piece: str) -> None:
    name = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
    started = time.thread_time()
    found = symbol(name)
    # 30 ms on the slowest machine seen; quadratic behaviour would take minutes
    assert time.thread_time() - started < 1.0
    assert len(found.bare) <= LONGEST


@given(st.text(alphabet="ab:<>(){}[] '.@&,*~-operatlmbd", max_size=80))
def test_no_name_breaks_the_scan(name: str) -> None:
    found = symbol(name)
    assert "\x00" not in found.outline
    assert "\x01" not in found.outline
