"""What the default view makes of names."""

import time

import pytest

from postmortem.diagnose.stacks.names import LONGEST_SHOWN, location, short_file, shorten

MM = (
    "c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoFunctor_<"
    "c10::CompileTimeFunctionPointer<at::Tensor (at::Tensor const&, at::Tensor const&), "
    "&at::(anonymous namespace)::wrapper_CPU_mm>, at::Tensor, c10::guts::typelist::typelist<"
    "at::Tensor const&, at::Tensor const&> >, at::Tensor (at::Tensor const&, at::Tensor const&)>"
    "::call(c10::OperatorKernel*, c10::DispatchKeySet, at::Tensor const&, at::Tensor const&)"
)


@pytest.mark.parametrize(
    ("function", "short"),
    [
        ("raise", "raise"),
        ("std::terminate()", "std::terminate"),
        ("__gnu_cxx::__verbose_terminate_handler() [clone .cold.1]",
         "__gnu_cxx::__verbose_terminate_handler [cold]"),
        ("std::vector<at::Tensor, std::allocator<at::Tensor> >::push_back(at::Tensor const&)",
         "std::vector<…>::push_back"),
        ("std::__cxx11::basic_string<char, std::char_traits<char>, A>::append(char const*)",
         "std::string::append"),
        ("void at::native::add<float>(int)::{lambda(int)#1}::operator()(int) const",
         "lambda in at::native::add<float>"),
        (MM, "dispatcher call of at::wrapper_CPU_mm"),
        (MM.replace("&at::(anonymous namespace)::wrapper_CPU_mm>",
                    "&(at::(anonymous namespace)::wrapper_CPU_mm(at::Tensor const&))>"),
         "dispatcher call of at::wrapper_CPU_mm"),
        ("c10::impl::wrap_kernel_functor_unboxed_<Odd>::call()",
         "c10::impl::wrap_kernel_functor_unboxed_<Odd>::call"),
        ("??", "??"),
        ("", ""),
    ],
)  # fmt: skip
def test_shorten(function: str, short: str) -> None:
    assert shorten(function) == short


def test_what_is_still_long_loses_its_middle() -> None:
    short = shorten("at::" + "very::" * 60 + "last(int)")
    assert len(short) == LONGEST_SHOWN
    assert short.startswith("at::very::")
    assert short.endswith("::very::last")


@pytest.mark.parametrize("piece", ["<", "(", "a::", "WrapFunctionIntoFunctor_<, &", "{lambda("])
def test_a_name_of_a_megabyte_is_short_and_soon_there(piece: str) -> None:
    started = time.thread_time()
    short = shorten("c10::impl::" + piece * (1_000_000 // len(piece)))
    assert time.thread_time() - started < 1.0
    assert len(short) <= LONGEST_SHOWN + len("dispatcher call of ")


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("/home/u/train.py", "train.py"),
        ("/opt/lib/python3.11/site-packages/torch/_tensor.py", "torch/_tensor.py"),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", "yaml/__init__.py"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("../sysdeps/posix/raise.c", "raise.c"),
        ("/", "/"),
    ],
)
def test_short_file(path: str, short: str) -> None:
    assert short_file(path) == short


def test_location() -> None:
    assert location("/home/u/train.py", 31) == "train.py:31"
    assert location("/home/u/train.py", 31, whole=True) == "/home/u/train.py:31"
    assert location("/home/u/train.py", None) == "train.py"
    assert location(None, 31) is None
