// Exceptions whose what() is the program's own: own_what KIND throws one that nobody catches.
#include <stdexcept>
#include <string>
#include <vector>

struct Constant : std::exception {
  const char* what() const noexcept override { return "always the same"; }
};
struct Member : std::exception {
  explicit Member(int step) : text("loss is NaN at step " + std::to_string(step)) {}
  std::string text;
  const char* what() const noexcept override { return text.c_str(); }
};
struct Inner : std::exception {
  std::runtime_error error{"kept inside, as json libraries do"};
  int id = 4;
  const char* what() const noexcept override { return error.what(); }
};
struct Second : std::vector<int>, virtual std::exception {
  std::string text = "behind a virtual base, which takes a thunk";
  const char* what() const noexcept override { return text.c_str(); }
};
struct Lazy : std::exception {
  mutable std::string text;
  const char* what() const noexcept override {
    text = "made when it is asked for";
    return text.c_str();
  }
};
struct Choosing : std::exception {
  volatile int code = 3;
  const char* what() const noexcept override {
    return code > 2 ? "one of two, by data" : "the other";
  }
};

int main(int, char** arguments) {
  const std::string which = arguments[1];
  if (which == "constant") throw Constant();
  if (which == "member") throw Member(1200);
  if (which == "inner") throw Inner();
  if (which == "second") throw Second();
  if (which == "lazy") throw Lazy();
  if (which == "choosing") throw Choosing();
}
