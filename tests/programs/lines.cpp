// Functions that are inlined into others, across headers, namespaces and lambdas. Build as a shared
// library with -g; the addresses of all its functions are looked up.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace trainer {

struct Sample {
  std::vector<double> values;
  std::string name;

  double mean() const {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
};

template <class T>
[[gnu::always_inline]] inline T scaled(T value, T by) {
  return value * by;
}

[[gnu::always_inline]] static inline double twice_scaled(double value) {
  return scaled(scaled(value, 2.0), 3.0);
}

[[gnu::noinline]] double loss(const std::vector<Sample>& batch) {
  double sum = 0;
  for (const Sample& sample : batch) {
    if (sample.values.empty()) continue;
    sum += twice_scaled(sample.mean());
  }
  return sum;
}

[[gnu::noinline]] void shuffle(std::vector<Sample>& batch, unsigned seed) {
  std::sort(batch.begin(), batch.end(), [seed](const Sample& a, const Sample& b) {
    return (a.values.size() ^ seed) < (b.values.size() ^ seed);
  });
  auto longer = [](const Sample& sample) { return sample.name.size() > 10; };
  batch.erase(std::remove_if(batch.begin(), batch.end(), longer), batch.end());
}

}  // namespace trainer

extern "C" double train(int count) {
  std::vector<trainer::Sample> batch(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) batch[static_cast<std::size_t>(i)].values.assign(5, i);
  trainer::shuffle(batch, 7);
  return trainer::loss(batch);
}
