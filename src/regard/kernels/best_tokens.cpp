// The best tokens of each row of logits, and their log-probabilities, in one pass over a row that stays in the cache.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "parallel.h"
#include "vectors.h"

namespace {

constexpr Size BLOCK = 64;  // logits whose maximum shows whether one of them is among the best

// The best so far, best first. Equally good ones keep their order.
struct Best {
  float* logits;
  std::int64_t* tokens;
  Size count;

  void insert(float logit, std::int64_t token) {
    Size place = count - 1;
    for (; place > 0 && logits[place - 1] < logit; --place) {
      logits[place] = logits[place - 1];
      tokens[place] = tokens[place - 1];
    }
    logits[place] = logit;
    tokens[place] = token;
  }
};

// Whether a comparison is true in any lane.
bool any(Whole lanes) {
  std::uint64_t pairs[LANES / 2], bits = 0;
  std::memcpy(pairs, &lanes, sizeof pairs);
  for (const std::uint64_t pair : pairs) bits |= pair;
  return bits;
}

// Fill in the best of a row and return its largest logit, at least the smallest number.
float choose(const float* row, Size size, const std::int64_t* forbidden, Size forbidden_count, Best best) {
  const Vec smallest = all(std::numeric_limits<float>::lowest());
  const float& worst = best.logits[best.count - 1];
  Vec most = smallest;
  for (Size first = 0; first < size; first += BLOCK) {
    const Size end = std::min(first + BLOCK, size);
    Vec block = smallest;
    for (Size i = first; i < end; i += LANES) {
      Vec numbers = smallest;
      if (i + LANES <= end) {
        numbers = load(row + i, LANES);
      } else {
        std::copy(row + i, row + end, reinterpret_cast<float*>(&numbers));
      }
      block = numbers > block ? numbers : block;
    }
    most = block > most ? block : most;
    if (!any(block > all(worst))) continue;
    for (Size i = first; i < end; ++i) {
      if (row[i] > worst && std::find(forbidden, forbidden + forbidden_count, i) == forbidden + forbidden_count) {
        best.insert(row[i], i);
      }
    }
  }
  float largest = most[0];
  for (int lane = 1; lane < LANES; ++lane) largest = std::max(largest, most[lane]);
  return largest;
}

// The logarithm of the sum of exponentials of logits below the largest; NaN if a logit is NaN or infinite.
float normalizer(const float* row, Size size, float most) {
  Vec sums{};
  Size i = 0;
  for (; i + LANES <= size; i += LANES) sums += exponential(load(row + i, LANES) - most);
  float sum = total(sums);
  for (; i < size; ++i) sum += std::exp(row[i] - most);
  return std::log(sum);
}

}  // namespace

// Fill in the log-probabilities (row, count) of the best tokens that are not forbidden, and the tokens. Places without
// a token have minus infinity and token 0. Return 0 on success, and -1 if a row has no token or a NaN or infinite logit.
extern "C" std::int32_t best_tokens(const float* logits, Size rows, Size size, const std::int64_t* forbidden,
                                    Size forbidden_count, Size count, float* scores, std::int64_t* tokens,
                                    ParallelFor parallel_for) {
  const std::int32_t failed = in_parallel(parallel_for, rows, size, [&](Size begin, Size end) {
    for (Size i = begin; i < end; ++i) {
      const float* row = logits + i * size;
      const Best best{scores + i * count, tokens + i * count, count};
      std::fill_n(best.logits, count, -std::numeric_limits<float>::infinity());
      std::fill_n(best.tokens, count, 0);
      const float most = choose(row, size, forbidden, forbidden_count, best);
      const float sum = normalizer(row, size, most);
      for (Size place = 0; place < count; ++place) best.logits[place] = best.logits[place] - most - sum;
    }
  });
  for (Size i = 0; i < rows && !failed; ++i) {
    if (!std::isfinite(scores[i * count])) return -1;
  }
  return failed;
}
