// Names of Rust in the encoding that RFC 2603 calls v0.
#include "base/demangle_rust.h"

#include <array>
#include <cstdint>
#include <utility>

namespace pm {
namespace rust {
namespace {

constexpr std::size_t kRustOutputLimit = 16384;
constexpr int kDeepest = 96;
constexpr int kMostSteps = 20000;  // back-references can make a short name a very long walk

struct Bad {};

// One pass over the name that writes as it reads. `quiet_` reads what is not shown.
class Printer {
 public:
  explicit Printer(std::string_view text) : text_(text) {}

  std::string run() {
    path(true);
    // The crate that an instance was made for may follow; then only a suffix (".llvm.123").
    if (at_ < text_.size() && text_[at_] >= 'A' && text_[at_] <= 'Z') {
      ++quiet_;
      path(false);
      --quiet_;
    }
    if (at_ < text_.size() && text_[at_] != '.' && text_[at_] != '$') throw Bad{};
    return std::move(out_);
  }

 private:
  struct Deeper {
    explicit Deeper(Printer& owner) : printer(owner) {
      if (printer.depth_ >= kDeepest || ++printer.steps_ > kMostSteps) throw Bad{};
      ++printer.depth_;
    }
    ~Deeper() { --printer.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Printer& printer;
  };

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char next() {
    if (at_ >= text_.size()) throw Bad{};
    return text_[at_++];
  }
  bool eat(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void put(std::string_view text) {
    if (quiet_ > 0) return;
    if (out_.size() + text.size() > kRustOutputLimit) throw Bad{};
    out_ += text;
  }

  std::uint64_t base62() {
    if (eat('_')) return 0;
    std::uint64_t value = 0;
    for (int count = 0; count < 12; ++count) {
      const char c = next();
      if (c == '_') return value + 1;
      unsigned digit = 0;
      if (is_digit(c)) {
        digit = static_cast<unsigned>(c - '0');
      } else if (c >= 'a' && c <= 'z') {
        digit = static_cast<unsigned>(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'Z') {
        digit = static_cast<unsigned>(c - 'A') + 36;
      } else {
        throw Bad{};
      }
      value = value * 62 + digit;
    }
    throw Bad{};
  }
  std::uint64_t disambiguator() { return eat('s') ? base62() + 1 : 0; }

  // The name without its disambiguator.
  std::string_view identifier(bool& puny) {
    puny = eat('u');
    if (!is_digit(peek())) throw Bad{};
    std::size_t size = 0;
    if (!eat('0')) {
      while (is_digit(peek())) {
        size = size * 10 + static_cast<std::size_t>(next() - '0');
        if (size > text_.size()) throw Bad{};
      }
    }
    eat('_');
    if (size > text_.size() - at_) throw Bad{};
    const std::string_view name = text_.substr(at_, size);
    at_ += size;
    return name;
  }
  void put_identifier() {
    bool puny = false;
    const std::string_view name = identifier(puny);
    put_name(name, puny);
  }
  void put_name(std::string_view name, bool puny) {
    if (puny) put("punycode{");
    put(name);
    if (puny) put("}");
  }

  // Continues at an earlier place, which must lie before the reference itself.
  template <class Read>
  void back(Read read) {
    const std::size_t here = at_ - 1;  // of the 'B'
    const std::uint64_t target = base62();
    if (target >= here) throw Bad{};
    if (quiet_ > 0) return;  // it was read before, and shows nothing
    const std::size_t after = std::exchange(at_, static_cast<std::size_t>(target));
    read();
    at_ = after;
  }

  void impl_path() {
    ++quiet_;
    disambiguator();
    path(false);
    --quiet_;
  }

  // `value` puts "::" before the arguments of generic functions, as expressions have it.
  void path(bool value) {
    const Deeper deeper(*this);
    switch (next()) {
      case 'C':
        disambiguator();
        put_identifier();
        return;
      case 'M':
        impl_path();
        put("<");
        type();
        put(">");
        return;
      case 'X':
        impl_path();
        [[fallthrough]];
      case 'Y':
        put("<");
        type();
        put(" as ");
        path(false);
        put(">");
        return;
      case 'N':
        nested(value);
        return;
      case 'I':
        path(value);
        put(value ? "::<" : "<");
        list([this] { generic_argument(); });
        put(">");
        return;
      case 'B':
        back([this, value] { path(value); });
        return;
      default:
        throw Bad{};
    }
  }

  void nested(bool value) {
    const char space = next();
    path(value);
    const std::uint64_t number = disambiguator();
    bool puny = false;
    const std::string_view name = identifier(puny);
    if (space >= 'A' && space <= 'Z') {
      put("::{");
      put(space == 'C' ? "closure" : space == 'S' ? "shim" : std::string_view(&space, 1));
      if (!name.empty()) {
        put(":");
        put_name(name, puny);
      }
      put("#");
      put(std::to_string(number));
      put("}");
    } else if (space >= 'a' && space <= 'z') {
      if (name.empty()) return;
      put("::");
      put_name(name, puny);
    } else {
      throw Bad{};
    }
  }

  template <class Read>
  std::size_t list(Read read) {
    std::size_t count = 0;
    for (; !eat('E'); ++count) {
      if (count > 0) put(", ");
      read();
    }
    return count;
  }

  void generic_argument() {
    if (eat('L')) {
      lifetime();
    } else if (eat('K')) {
      constant();
    } else {
      type();
    }
  }
  void lifetime() { put(base62() == 0 ? "'_" : "'a"); }

  static std::string_view basic(char tag) {
    constexpr std::array<std::string_view, 26> kBasic{
        "i8",    "bool", "char", "f64", "str",  "f32",  "",    "u8", "isize",
        "usize", "",     "i32",  "u32", "i128", "u128", "_",   "",   "",
        "i16",   "u16",  "()",   "...", "",     "i64",  "u64", "!"};
    return tag >= 'a' && tag <= 'z' ? kBasic[static_cast<std::size_t>(tag - 'a')] : "";
  }

  void type() {
    const Deeper deeper(*this);
    const char tag = peek();
    if (const auto name = basic(tag); !name.empty()) {
      ++at_;
      put(name);
      return;
    }
    switch (tag) {
      case 'A':
      case 'S':
        ++at_;
        put("[");
        type();
        if (tag == 'A') {
          put("; ");
          constant();
        }
        put("]");
        return;
      case 'T': {
        ++at_;
        put("(");
        if (list([this] { type(); }) == 1) put(",");
        put(")");
        return;
      }
      case 'R':
      case 'Q':
        ++at_;
        put("&");
        if (eat('L')) {
          if (base62() != 0) put("'a ");
        }
        if (tag == 'Q') put("mut ");
        type();
        return;
      case 'P':
      case 'O':
        ++at_;
        put(tag == 'P' ? "*const " : "*mut ");
        type();
        return;
      case 'F':
        ++at_;
        function();
        return;
      case 'D':
        ++at_;
        dynamic();
        return;
      case 'B':
        ++at_;
        back([this] { type(); });
        return;
      default:
        path(false);
    }
  }

  void function() {
    if (eat('G')) base62();
    if (eat('U')) put("unsafe ");
    if (eat('K')) {
      put("extern \"");
      if (eat('C')) {
        put("C");
      } else {
        put_identifier();
      }
      put("\" ");
    }
    put("fn(");
    list([this] { type(); });
    put(")");
    if (eat('u')) return;
    put(" -> ");
    type();
  }

  void dynamic() {
    put("dyn ");
    if (eat('G')) base62();
    for (std::size_t count = 0; !eat('E'); ++count) {
      if (count > 0) put(" + ");
      path(false);
      if (peek() != 'p') continue;
      // Associated types stand among the arguments: Fn<(u8,), Output = bool>.
      bool open = quiet_ == 0 && out_.ends_with('>');
      if (open) out_.pop_back();
      if (!open) put("<");
      for (; eat('p'); open = true) {
        if (open) put(", ");
        put_identifier();
        put(" = ");
        type();
      }
      put(">");
    }
    if (!eat('L')) throw Bad{};
    base62();
  }

  void constant() {
    const Deeper deeper(*this);
    if (eat('B')) {
      back([this] { constant(); });
      return;
    }
    const char tag = next();
    if (tag == 'p') {
      put("_");
      return;
    }
    if (basic(tag).empty()) throw Bad{};
    const bool negative = eat('n');
    const std::size_t begin = at_;
    while (is_lower_hex(peek())) ++at_;
    const std::string_view digits = text_.substr(begin, at_ - begin);
    if (!eat('_')) throw Bad{};
    put_number(tag, negative, digits);
  }

  void put_number(char tag, bool negative, std::string_view digits) {
    if (digits.size() > 16) {
      put(negative ? "-0x" : "0x");
      put(digits);
      return;
    }
    std::uint64_t value = 0;
    for (const char c : digits) {
      value = value * 16 + hex_value(c);
    }
    if (tag == 'b') {
      put(value != 0 ? "true" : "false");
    } else if (tag == 'c' && value > 0x20 && value < 0x7f) {
      put(std::string{'\'', static_cast<char>(value), '\''});
    } else {
      if (negative) put("-");
      put(std::to_string(value));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  int quiet_ = 0;
  int depth_ = 0;
  int steps_ = 0;
};

}  // namespace
}  // namespace rust

std::optional<std::string> demangle_rust(std::string_view name) {
  if (name.starts_with("_ZN")) return rust::demangle_legacy(name);
  if (!name.starts_with("_R") || name.size() < 4) return std::nullopt;
  name.remove_prefix(2);
  if (name[0] < 'A' || name[0] > 'Z') return std::nullopt;  // a later version of the encoding
  try {
    return rust::Printer(name).run();
  } catch (const rust::Bad&) {
    return std::nullopt;
  }
}

}  // namespace pm
