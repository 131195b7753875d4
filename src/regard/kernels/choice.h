// The best tokens of rows of logits.

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "vectors.h"

namespace {

// A hypothesis, the row `parent`, with one token more, and its log-probability.
struct Extension {
  float score;
  Size parent, token;
};

constexpr Size CHUNK = 64;

// The highest of all numbers and of each CHUNK of them, so that few are read again while the best are chosen.
struct Peaks {
  std::vector<float> of_chunk;
  float most = -INFINITY;

  Peaks(const float* numbers, Size count) : of_chunk((count + CHUNK - 1) / CHUNK) {
    for (Size chunk = 0; chunk * CHUNK < count; ++chunk) {
      of_chunk[chunk] = *std::max_element(numbers + chunk * CHUNK, numbers + std::min(count, (chunk + 1) * CHUNK));
      most = std::max(most, of_chunk[chunk]);
    }
  }
};

// log sum_k e^x_k; NaN or infinite if a number is.
float log_of_sum(const float* numbers, Size count) {
  Vec most = all(-INFINITY), sum{};
  for (Size k = 0; k + LANES <= count; k += LANES) {
    const Vec x = load(numbers + k, LANES);
    most = x > most ? x : most;
  }
  const Stored lanes = most;
  float highest = *std::max_element(lanes.numbers, lanes.numbers + LANES);
  for (Size k = count / LANES * LANES; k < count; ++k) {
    highest = std::max(highest, numbers[k]);
  }
  for (Size k = 0; k < count; k += LANES) {
    sum += kept(exponential(load(numbers + k, count - k) - highest), count - k);
  }
  return highest + std::log(total(sum));
}

// Merge the extensions of a hypothesis by each token into the `most` best ones, which are in descending order. Those
// with a logit of minus infinity are not possible.
void merge(const float* logits, Size count, const Peaks& peaks, float normaliser, float score, Size parent, Size most,
           std::vector<Extension>& best) {
  const auto extended = [&](float logit) { return score + (logit - normaliser); };
  const auto beaten = [&](float one) {
    return one == -INFINITY || (static_cast<Size>(best.size()) == most && one <= best.back().score);
  };
  for (Size chunk = 0; chunk * CHUNK < count; ++chunk) {
    if (beaten(extended(peaks.of_chunk[chunk]))) {
      continue;
    }
    for (Size token = chunk * CHUNK; token < std::min(count, (chunk + 1) * CHUNK); ++token) {
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
