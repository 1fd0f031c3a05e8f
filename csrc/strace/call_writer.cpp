#include "strace/call_writer.h"

#include <charconv>

namespace pm::strace {
namespace {

constexpr std::string_view kHeading =
    "file,line,began_line,pid,time,seconds,syscall,result,errno,injected,unfinished,fd,path,kind,"
    "deleted,source,bytes";

void append_number(std::string& out, std::int64_t value) {
  char digits[24];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  out.append(digits, end);
}

// 1700000000.123456: all digits that are not zero.
void append_seconds(std::string& out, std::int64_t nanoseconds) {
  append_number(out, nanoseconds / 1'000'000'000);
  auto fraction = static_cast<std::uint32_t>(nanoseconds % 1'000'000'000);
  if (fraction == 0) return;
  char digits[10] = {'.'};
  for (int i = 9; i > 0; --i, fraction /= 10) digits[i] = static_cast<char>('0' + fraction % 10);
  std::size_t length = 10;
  while (digits[length - 1] == '0') --length;
  out.append(digits, length);
}

}  // namespace

CallWriter::CallWriter(int descriptor, CallForm form, Mask mask, bool texts)
    : out_(descriptor), form_(form), masked_(std::move(mask)), texts_(texts) {
  if (form_ == CallForm::csv) {
    out_.add(kHeading);
    out_.add(texts_ ? ",text\n" : "\n");
  }
}

void CallWriter::begin(const LogLabel& label) { files_ = label.files; }

void CallWriter::key(std::string_view name) {
  if (!line_.empty()) line_.push_back(',');
  if (form_ == CallForm::csv) return;
  line_.append(line_.empty() ? "{\"" : "\"").append(name).append("\":");
}

void CallWriter::number(std::string_view name, std::int64_t value) {
  key(name);
  append_number(line_, value);
}

void CallWriter::seconds(std::string_view name, std::int64_t nanoseconds) {
  if (nanoseconds == kNoTime) return nothing(name);
  key(name);
  append_seconds(line_, nanoseconds);
}

void CallWriter::text(std::string_view name, std::string_view value) {
  key(name);
  form_ == CallForm::csv ? append_csv_field(line_, value) : append_json_string(line_, value);
}

void CallWriter::nothing(std::string_view name) {
  key(name);
  if (form_ == CallForm::ndjson) line_ += "null";
}

void CallWriter::call(const CallRecord& call, const Tracker&) {
  const Target& target = call.target();
  const auto flag = [&](std::string_view name, bool value) {
    key(name);
    line_ += value ? "true" : "false";
  };
  line_.clear();
  text("file", call.place.file < files_.size() ? files_[call.place.file] : std::string());
  number("line", static_cast<std::int64_t>(call.place.line));
  call.began ? number("began_line", static_cast<std::int64_t>(call.began)) : nothing("began_line");
  number("pid", call.pid);
  seconds("time", call.start);
  seconds("seconds", call.duration);
  text("syscall", call.name);
  call.result.known ? number("result", call.result.value) : nothing("result");
  call.result.error.empty() ? nothing("errno") : text("errno", call.result.error);
  flag("injected", call.result.injected);
  flag("unfinished", call.unfinished);
  call.fd() >= 0 ? number("fd", call.fd()) : nothing("fd");
  const std::string& words = target.path.empty() ? target.label : target.path;
  words.empty() ? nothing("path") : text("path", masked_(words));
  const bool about = !words.empty() || call.fd() >= 0;
  about ? text("kind", word_of(target.kind)) : nothing("kind");
  about ? flag("deleted", target.deleted) : nothing("deleted");
  about ? text("source", word_of(target.origin)) : nothing("source");
  number("bytes", call.bytes());
  if (texts_) text("text", call.text());
  line_ += form_ == CallForm::csv ? "\n" : "}\n";
  out_.add(line_);
  ++calls_;
}

}  // namespace pm::strace
