// The best tokens of rows of logits, which are computed and read block by block.

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

struct Candidate {
  float logit;
  Size token;
};

// sum_k e^x_k = e^peak total, of logits of which `peak` is the highest; NaN if one is NaN or infinite.
struct Exponents {
  float peak, total;
};

// log sum_k e^x_k of logits in several blocks, of which sums are `step` apart.
float normaliser(const Exponents* sums, Size blocks, Size step) {
  float peak = -INFINITY, sum = 0.0f;
  for (Size block = 0; block < blocks; ++block) {
    peak = std::max(peak, sums[block * step].peak);
  }
  for (Size block = 0; block < blocks; ++block) {
    sum += sums[block * step].total * std::exp(sums[block * step].peak - peak);
  }
  return peak + std::log(sum);
}

// BLOCK logits of a row are in a cache while they are chosen from, and the highest of each CHUNK of them says whether
// the others are read again.
constexpr Size BLOCK = 256, CHUNK = 64;

// The logits of `count` tokens of a row from token `first` on.
class Logits {
 public:
  Logits(float* numbers, Size first, Size count) : numbers(numbers), first(first), count(count) {
    for (Size chunk = 0; chunk * CHUNK < count; ++chunk) {
      look_at(chunk);
    }
  }

  Exponents exponents() const {
    const float peak = *std::max_element(highest, highest + (count + CHUNK - 1) / CHUNK);
    const float base = peak == -INFINITY ? 0.0f : peak;
    Vec sum{};
    for (Size k = 0; k < count; k += LANES) {
      sum += kept(exponential(load(numbers + k, count - k) - base), count - k);
    }
    return {peak, total(sum)};
  }

  bool has(Size token) const { return token >= first && token < first + count; }

  // Only of a token that it has.
  float replace(Size token, float logit) {
    const float before = std::exchange(numbers[token - first], logit);
    look_at((token - first) / CHUNK);
    return before;
  }

  // Merge the tokens that are possible into the `most` best ones, which are in descending order.
  void keep_best(Size most, std::vector<Candidate>& best) const {
    const auto beaten = [&](float logit) {
      return logit == -INFINITY || (static_cast<Size>(best.size()) == most && logit <= best.back().logit);
    };
    for (Size chunk = 0; chunk * CHUNK < count; ++chunk) {
      if (beaten(highest[chunk])) {
        continue;
      }
      for (Size k = chunk * CHUNK; k < std::min(count, (chunk + 1) * CHUNK); ++k) {
        if (!beaten(numbers[k])) {
          insert({numbers[k], first + k}, most, best);
        }
      }
    }
  }

  // Among equals the one that came first stays before the other.
  static void insert(const Candidate& one, Size most, std::vector<Candidate>& best) {
    if (static_cast<Size>(best.size()) == most) {
      best.pop_back();
    }
    const auto after = std::upper_bound(best.begin(), best.end(), one.logit,
                                        [](float left, const Candidate& right) { return left > right.logit; });
    best.insert(after, one);
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
  Size first, count;
  float highest[BLOCK / CHUNK];
};

}  // namespace
