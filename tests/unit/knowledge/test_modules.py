"""File names of one library in pip wheels, conda, Debian, Red Hat and Alpine."""

import pytest

from builders.prose import Prose
from postmortem.knowledge.modules import area_of, module_kind, short_name, stem

SITE = "/opt/train/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("path", "area"),
    [
        ("/opt/conda/bin/python3.11", "CPython"),
        ("/usr/bin/python3", "CPython"),
        ("/usr/local/bin/python3.13t", "CPython"),
        ("/opt/train/lib/libpython3.11.so.1.0", "CPython"),
        ("/usr/lib/python3.11/lib-dynload/_ctypes.cpython-311-x86_64-linux-gnu.so", "CPython"),
        (f"{SITE}/torch/lib/libtorch_cpu.so", "PyTorch"),
        (f"{SITE}/torch/lib/libsomething_new.so", "PyTorch"),
        (f"{SITE}/torch/_C.cpython-311-x86_64-linux-gnu.so", "PyTorch"),
        (f"{SITE}/torch/lib/libgomp-a34b3233.so.1", "OpenMP"),
        (f"{SITE}/torch.libs/libgomp-a34b3233.so.1.0.0", "OpenMP"),
        ("/opt/conda/lib/libiomp5.so", "OpenMP"),
        ("/usr/lib/llvm-14/lib/libomp.so.5", "OpenMP"),
        (f"{SITE}/nvidia/nccl/lib/libnccl.so.2", "NCCL"),
        ("/opt/aws-ofi-nccl/lib/libnccl-net.so", "NCCL"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "CUDA driver"),
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.535.54.03", "CUDA driver"),
        (f"{SITE}/nvidia/cublas/lib/libcublasLt.so.12", "CUDA runtime/libraries"),
        (f"{SITE}/nvidia/new_thing/lib/libnew.so.1", "CUDA runtime/libraries"),
        (f"{SITE}/numpy.libs/libopenblas64_p-r0-0cf96a72.3.23.dev.so", "BLAS"),
        (f"{SITE}/numpy.libs/libscipy_openblas64_-6bb31eeb.so", "BLAS"),
        ("/opt/conda/lib/libmkl_avx512.so.2", "BLAS"),
        (f"{SITE}/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so", "NumPy/SciPy"),
        (f"{SITE}/numpy.libs/libsomething-0123abcd.so", "NumPy/SciPy"),
        ("/lib/x86_64-linux-gnu/libc.so.6", "C library"),
        ("/lib/x86_64-linux-gnu/libc-2.31.so", "C library"),
        ("/lib64/ld-linux-x86-64.so.2", "C library"),
        ("/lib/ld-musl-x86_64.so.1", "C library"),
        ("/lib/libc.musl-x86_64.so.1", "C library"),
        ("/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1", "C library"),
        ("/lib/x86_64-linux-gnu/libpthread-2.31.so", "C library"),
        ("/opt/conda/lib/libstdc++.so.6.0.33", "C++ runtime"),
        ("/usr/lib/libc++.so.1", "C++ runtime"),
        ("/lib/x86_64-linux-gnu/libgcc_s.so.1", "C++ runtime"),
        ("/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/mca_btl_tcp.so", "MPI"),
        ("/usr/lib/libmpi.so.40", "MPI"),
        ("/usr/lib64/libibverbs.so.1.14.39.0", "network"),
        ("/opt/amazon/efa/lib64/libfabric.so.1", "network"),
        (f"{SITE}/triton/_C/libtriton.so", "Triton"),
        ("/home/u/.triton/cache/0a1b/cuda_utils.so", "Triton"),
        ("[vdso]", "kernel (vdso)"),
        ("linux-vdso.so.1", "kernel (vdso)"),
        ("/lib/x86_64-linux-gnu/libffi.so.8", "system library"),
        ("/home/u/libmyops.so", "your extension"),
        ("/home/u/libmyops.so (deleted)", "your extension"),
        (f"{SITE}/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so", "your extension"),
        (f"{SITE}/vllm/_C.abi3.so", "your extension"),
        ("/home/u/.cache/torch_extensions/py311_cu121/adam/adam.so", "your extension"),
        ("/home/u/bin/train", "your program"),
        ("/memfd:jit (deleted)", "unknown"),
        ("/dev/nvidia0", "unknown"),
        (None, "unknown"),
        ("", "unknown"),
    ],
)
def test_area_of_a_file(path: str | None, area: str) -> None:
    assert module_kind(path).area == area


def test_label_names_the_package_of_an_extension(prose: Prose) -> None:
    prose(module_kind(f"{SITE}/vllm/_C.abi3.so").label)


def test_the_executable_is_the_program_whatever_it_is_called() -> None:
    path = "/opt/lib/trainer.so.exe"
    assert module_kind(path, path).area == "your program"


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("/x/torch/lib/libgomp-a34b3233.so.1", "libgomp.so.1"),
        ("/lib64/libc.so.6", "libc.so.6"),
        ("/x/_C.cpython-311-x86_64-linux-gnu.so", "_C.so"),
        ("/x/_C.abi3.so", "_C.so"),
        ("/x/libmyops.so (deleted)", "libmyops.so"),
        (None, None),
    ],
)
def test_short_name(name: str | None, short: str | None) -> None:
    assert short_name(name) == short


def test_stem_needs_a_real_suffix() -> None:
    assert stem("libsome.software") == "libsome.software"


@pytest.mark.parametrize(
    "function",
    [
        "torch::autograd::Engine::thread_main(int)",
        "torch::autograd::VariableType::(anonymous namespace)::mm(int)",
        "c10d::ProcessGroupNCCL::workCleanupLoop()",
        "c10::impl::wrap_kernel_functor_unboxed_<A>::call(int)",
        "at::native::cpublas::gemm(int)",
        "c10::cuda::CUDACachingAllocator::raw_delete(void*)",
        "mkl_blas_sgemm",
        "ncclCommAbort",
        "unheard_of",
    ],
)
def test_area_inside_of_pytorch_is_decided_by_the_function(function: str, prose: Prose) -> None:
    prose(area_of(function, "/x/libtorch_cpu.so"))


def test_namespaces_count_only_inside_of_pytorch() -> None:
    assert area_of("c10d::Mine::run()", "/home/u/libmine.so") == "your extension"
