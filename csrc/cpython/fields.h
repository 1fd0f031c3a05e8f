// What a report calls the fields of an interpreter's state: the names of _native.pyi.
#pragma once

#include <optional>
#include <string_view>

#include "base/fields.h"
#include "cpython/python.h"

namespace pm {

// Of a thread's ID: 0 is none.
template <class T>
constexpr auto unless_zero(std::int32_t T::* member) {
  return [member](const T& one) { return one.*member ? std::optional(one.*member) : std::nullopt; };
}

template <>
inline constexpr auto kFields<cpython::Frame> = std::tuple(
    field("function", &cpython::Frame::function),
    field<Told::or_none>("file", &cpython::Frame::file), field("line", &cpython::Frame::line),
    field("entry", [](const cpython::Frame& frame) { return frame.evaluators > 0; }),
    field("evaluators", &cpython::Frame::evaluators), field("locals", &cpython::Frame::locals));

template <>
inline constexpr auto kFields<cpython::TracebackLine> =
    std::tuple(field<Told::or_none>("file", &cpython::TracebackLine::file),
               field("line", &cpython::TracebackLine::line),
               field("function", &cpython::TracebackLine::function));

template <>
inline constexpr auto kFields<cpython::LinkedException> =
    std::tuple(field("relation",
                     [](const cpython::LinkedException& link) {
                       return std::string_view(link.cause ? "cause" : "context");
                     }),
               field("type", &cpython::LinkedException::type),
               field("message", &cpython::LinkedException::message));

template <>
inline constexpr auto kFields<cpython::Exception> = std::tuple(
    field("type", &cpython::Exception::type), field("message", &cpython::Exception::message),
    field("traceback", &cpython::Exception::traceback),
    field("traceback_skipped", &cpython::Exception::traceback_skipped),
    field("chain", &cpython::Exception::chain));

template <>
inline constexpr auto kFields<cpython::Lock> =
    std::tuple(field("object", &cpython::Lock::object), field("word", &cpython::Lock::word),
               field("recursive", &cpython::Lock::recursive), field("owner", &cpython::Lock::owner),
               field("owner_tid", unless_zero(&cpython::Lock::owner_tid)));

template <>
inline constexpr auto kFields<cpython::HeldLock> =
    std::tuple(field<Told::inside>(
                   "", [](const cpython::HeldLock& held) -> const cpython::Lock& { return held; }),
               field("frame", &cpython::HeldLock::frame));

// All but its frames, of which many threads have the same.
template <>
inline constexpr auto kFields<cpython::Thread> = std::tuple(
    field("tid", unless_zero(&cpython::Thread::tid)),
    field<Told::or_none>("name", &cpython::Thread::name),
    field("holds_gil", &cpython::Thread::holds_gil),
    field("idle_evaluators", &cpython::Thread::idle_evaluators),
    field("skipped", &cpython::Thread::skipped),
    field("skipped_at",
          [](const cpython::Thread& thread) {
            return thread.skipped ? std::optional(thread.skipped_at) : std::nullopt;
          }),
    field<Told::or_none>("stopped", &cpython::Thread::stopped),
    field("held", &cpython::Thread::held), field("at_hand", &cpython::Thread::at_hand),
    field("end_word", &cpython::Thread::end_word), field("object", &cpython::Thread::object),
    field("receiver", &cpython::Thread::receiver), field("raised", &cpython::Thread::raised),
    field("handled", &cpython::Thread::handled));

// All but its frames.
template <>
inline constexpr auto kFields<cpython::AsyncTask> = std::tuple(
    field("object", &cpython::AsyncTask::object), field("name", &cpython::AsyncTask::name),
    field("tid", unless_zero(&cpython::AsyncTask::tid)),
    field("running", &cpython::AsyncTask::running),
    field("nothing_due", &cpython::AsyncTask::nothing_due),
    field<Told::or_none>("waits_on", &cpython::AsyncTask::waits_on),
    field("waits_for", &cpython::AsyncTask::waits_for));

// All but its frames.
template <>
inline constexpr auto kFields<cpython::Greenlet> = std::tuple(
    field("object", &cpython::Greenlet::object),
    field<Told::or_none>("name", &cpython::Greenlet::name), field("type", &cpython::Greenlet::type),
    field("main", &cpython::Greenlet::main), field("tid", unless_zero(&cpython::Greenlet::tid)));

// All but its threads, tasks and greenlets.
template <>
inline constexpr auto kFields<cpython::PythonState> =
    std::tuple(field("version", &cpython::PythonState::version),
               field("library", &cpython::PythonState::library),
               field("gil_holder", &cpython::PythonState::gil_holder),
               field("gil", &cpython::PythonState::gil),
               field("gil_enabled", &cpython::PythonState::gil_enabled));

}  // namespace pm
