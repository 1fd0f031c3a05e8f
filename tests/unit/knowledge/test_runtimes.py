"""Languages whose frames are not read."""

from postmortem.facts.threads import Frame
from postmortem.knowledge.runtimes import unread_languages


def languages(*frames: Frame) -> list[str]:
    return [found.language for found in unread_languages(frames)]


def test_by_module_and_by_function() -> None:
    jvm = Frame("JavaCalls::call_helper", module="/usr/lib/jvm/lib/server/libjvm.so")
    assert languages(jvm) == ["Java"]
    assert languages(Frame("Builtins_JSEntry", module="/usr/bin/node")) == ["JavaScript"]
    assert languages(Frame("runtime.goexit.abi0", module="/opt/serve"))[0].startswith("Go")
    assert languages(Frame("Rf_eval", module="/usr/lib/R/lib/libR.so")) == ["R"]
    assert languages(Frame("??", module="/memfd:doublemapper")) == [".NET"]
    assert languages(Frame("erts_exit", module="/usr/lib/erlang/bin/beam.smp")) == ["Erlang"]
    assert languages(Frame("lua_pcall", module="/usr/bin/luajit")) == ["Lua"]


def test_native_code_and_python_have_nothing_unread() -> None:
    assert not languages(
        Frame("main", module="/opt/libRuntime.so"),
        Frame("base_init", module="/opt/x"),
        Frame("runtime_start", module="/opt/x"),
        Frame("Rf_eval", kind="python", file="/x.py"),
    )
