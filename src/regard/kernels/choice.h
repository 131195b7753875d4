// The best tokens of rows of logits.

#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "vectors.h"

namespace {

// A hypothesis, the row `parent`, with one token more, and its log-probability.
struct Extension {
  float score;
  Size parent, token;
};

constexpr Size CHUNK = 64;

// A row of logits, with the highest of all and of each CHUNK of them, so that few are read again while the best are
// chosen.
class Logits {
 public:
  Logits(float* numbers, Size count) : numbers(numbers), count(count), highest((count + CHUNK - 1) / CHUNK) {
    for (Size chunk = 0; chunk < static_cast<Size>(highest.size()); ++chunk) {
      look_at(chunk);
    }
  }

  float most() const { return *std::max_element(highest.begin(), highest.end()); }
  float most(Size chunk) const { return highest[chunk]; }
  float operator[](Size token) const { return numbers[token]; }
  Size size() const { return count; }

  // log sum_k e^x_k; NaN or infinite if a logit is.
  float normaliser() const {
    const float peak = most();
    Vec sum{};
    for (Size k = 0; k < count; k += LANES) {
      sum += kept(exponential(load(numbers + k, count - k) - peak), count - k);
    }
    return peak + std::log(total(sum));
  }

  float replace(Size token, float logit) {
    const float before = std::exchange(numbers[token], logit);
    look_at(token / CHUNK);
    return before;
  }

 private:
  void look_at(Size chunk) {
    const Size end = std::min(count, (chunk + 1) * CHUNK);
    Vec peaks = all(-INFINITY);
    Size k = chunk * CHUNK;
    for (; k + LANES <= end; k += LANES) {
      const Vec x = load(numbers + k, LANES);
      peaks = x > peaks ? x : peaks;
    }
    const Stored lanes = peaks;
    float peak = *std::max_element(lanes.numbers, lanes.numbers + LANES);
    for (; k < end; ++k) {
      peak = std::max(peak, numbers[k]);
    }
    highest[chunk] = peak;
  }

  float* numbers;
  Size count;
  std::vector<float> highest;
};

// Merge the extensions of a hypothesis by each token into the `most` best ones, which are in descending order. Those
// with a logit of minus infinity are not possible.
void merge(const Logits& logits, float normaliser, float score, Size parent, Size most, std::vector<Extension>& best) {
  const auto extended = [&](float logit) { return score + (logit - normaliser); };
  const auto beaten = [&](float one) {
    return one == -INFINITY || (static_cast<Size>(best.size()) == most && one <= best.back().score);
  };
  for (Size chunk = 0; chunk * CHUNK < logits.size(); ++chunk) {
    if (beaten(extended(logits.most(chunk)))) {
      continue;
    }
    for (Size token = chunk * CHUNK; token < std::min(logits.size(), (chunk + 1) * CHUNK); ++token) {
      const float one = extended(logits[token]);
      if (beaten(one)) {
        continue;
      }
      if (static_cast<Size>(best.size()) == most) {
        best.pop_back();
      }
      const auto after = std::upper_bound(best.begin(), best.end(), one,
                                          [](float left, const Extension& right) { return left > right.score; });
      best.insert(after, {one, parent, token});
    }
  }
}

}  // namespace
