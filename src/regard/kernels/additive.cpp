// Additive scores of many queries and keys, and their gradients; `additive.h` has the sums.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "additive.h"
#include "parallel.h"
#include "vectors.h"

namespace {

// The arguments from Python: batch rows of queries, keys and their exponentials, energies; sizes; and the stride of the
// batch axis of each, in numbers, 0 if all batch rows share one.
struct Problem {
  const void *query, *key;
  const float *exponentials, *energy;
  Size batches, queries, keys, width, query_step, key_step, exponentials_step, energy_step;
};

constexpr Size QUERIES = 64, KEYS = 256;  // of one forward unit of work
constexpr Size STRETCH = 64;              // keys that stay in the first cache, backward

template <class Number>
std::int32_t exponentials(const Number* key, Size rows, Size width, float* to, ParallelFor parallel_for) {
  const Size blocks = blocks_of(width);
  return in_parallel(parallel_for, rows, width, [&](Size begin, Size end) {
    prepare(reinterpret_cast<Stored*>(to) + begin * blocks, key + begin * width, end - begin, width, width, blocks,
            Shared::key);
  });
}

template <class Number>
std::int32_t forward(const Problem& p, Number* scores, ParallelFor parallel_for) {
  const Size down = parts(p.queries, QUERIES), across = parts(p.keys, KEYS), blocks = blocks_of(p.width);
  const Size size = std::min(QUERIES, p.queries) * std::min(KEYS, p.keys) * p.width;
  return in_parallel(parallel_for, p.batches * down * across, size, [&](Size begin, Size end) {
    Room room;
    for (Size unit = begin; unit < end; ++unit) {
      const Size batch = unit / (down * across), t = unit / across % down * QUERIES, i = unit % across * KEYS;
      const Size queries = std::min(QUERIES, p.queries - t), keys = std::min(KEYS, p.keys - i);
      const Number* query = static_cast<const Number*>(p.query) + batch * p.query_step + t * p.width;
      const Number* key = static_cast<const Number*>(p.key) + batch * p.key_step + i * p.width;
      const auto* ready = reinterpret_cast<const Stored*>(p.exponentials + batch * p.exponentials_step) + i * blocks;
      Number* to = scores + (batch * p.queries + t) * p.keys + i;
      sums_of_pairs(query, queries, key, ready, keys, p.energy + batch * p.energy_step, p.width, to, p.keys, room);
    }
  });
}

template <class Number>
struct Gradients {
  const Number* scores;  // (batch, query, key)
  Number *query, *key;   // (batch, query, width), (batch, key, width)
  float* energy;         // (batch, width)
};

// Add the terms of some queries and a stretch of keys to the sums of g sech^2 / 4, per query and per key. Return the
// sum of g tanh.
template <class Rule, class Number, int ROWS>
inline Vec sweep(const typename Rule::Query* query, const typename Rule::Key* key, Size step, Size keys,
                 const Number* gradient, Size row, Vec* by_query, Vec* by_key) {
  Vec sums[ROWS] = {}, tangents{};
  for (Size i = 0; i < keys; ++i) {
    Vec here = by_key[i];
    __builtin_prefetch(&key[i * step] + 1);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      const Pair pair = Rule::pair(query[r], key[i * step]);
      const Vec inverted = inverse<std::is_same_v<Number, float>>(pair.below);
      const Vec g = all(widened(gradient[r * row + i])), h = pair.rest * inverted, along = g * h;
      const Vec slope = along - along * h;
      tangents += g * inverted * pair.number;
      sums[r] += slope;
      here += slope;
    }
    by_key[i] = here;
  }
  for (int r = 0; r < ROWS; ++r) {
    by_query[r] += sums[r];
  }
  return tangents;
}

struct Sums {
  std::vector<Vec> by_query, by_key;
  Vec tangents;
};

template <class Rule, class Number>
void sum(Sums& to, const typename Rule::Query* query, Size queries, const typename Rule::Key* key, Size step, Size keys,
         const Number* gradient) {
  to.by_query.assign(queries, Vec{});
  to.by_key.assign(keys, Vec{});
  to.tangents = Vec{};
  for (Size i = 0; i < keys; i += STRETCH) {
    const Size some = std::min(STRETCH, keys - i);
    for (Size t = 0; t < queries;) {
      const bool rows = queries - t >= SIDE;
      const auto work = rows ? &sweep<Rule, Number, SIDE> : &sweep<Rule, Number, 1>;
      to.tangents += work(query + t, key + i * step, step, some, gradient + t * keys + i, keys, &to.by_query[t],
                          &to.by_key[i]);
      t += rows ? SIDE : 1;
    }
  }
}

// A unit of work is one batch row in LANES of its dimensions. No other unit adds to its gradients, so that sums do not
// depend on the number of threads.
template <class Number>
std::int32_t backward(const Problem& p, const Gradients<Number>& g, ParallelFor parallel_for) {
  const Size units = parts(p.width, LANES), blocks = blocks_of(p.width);
  return in_parallel(parallel_for, p.batches * units, p.queries * p.keys * LANES, [&](Size begin, Size end) {
    Sums sums;
    std::vector<Exponentials> q(p.queries);
    std::vector<Vec> raw(p.queries + p.keys);
    for (Size unit = begin; unit < end; ++unit) {
      const Size batch = unit / units, block = unit % units, first = block * LANES;
      const Size count = std::min<Size>(LANES, p.width - first);
      const Number* query = static_cast<const Number*>(p.query) + batch * p.query_step + first;
      const Number* key = static_cast<const Number*>(p.key) + batch * p.key_step + first;
      const Number* gradient = g.scores + batch * p.queries * p.keys;
      if (shareable(query, p.queries, key, p.keys, count, p.width)) {
        prepare(q.data(), query, p.queries, count, p.width, 1, Shared::query);
        const auto* k = reinterpret_cast<const Stored*>(p.exponentials + batch * p.exponentials_step) + block;
        sum<Shared>(sums, q.data(), p.queries, k, blocks, p.keys, gradient);
      } else {
        Vec* k = raw.data() + p.queries;
        prepare(raw.data(), query, p.queries, count, p.width, 1, as_is);
        prepare(k, key, p.keys, count, p.width, 1, as_is);
        sum<Direct>(sums, raw.data(), p.queries, k, 1, p.keys, gradient);
      }
      const Vec energy = 4.0f * load(p.energy + batch * p.energy_step + first, count);
      put_rows(g.query + batch * p.queries * p.width + first, sums.by_query, energy, p.width, count);
      put_rows(g.key + batch * p.keys * p.width + first, sums.by_key, energy, p.width, count);
      store(g.energy + batch * p.width + first, sums.tangents, count);
    }
  });
}

}  // namespace

extern "C" {

// Compute s of `rows` rows of keys, in bfloat16 if `half` is not 0, with each row padded to a multiple of ROUND, as the
// functions below expect it. All three functions return 0 on success.
std::int32_t additive_exponentials(const void* key, Size rows, Size width, int half, float* to,
                                   ParallelFor parallel_for) {
  return half ? exponentials(static_cast<const Half*>(key), rows, width, to, parallel_for)
              : exponentials(static_cast<const float*>(key), rows, width, to, parallel_for);
}

// Compute scores (batch, query, key). Scores, queries and keys are in bfloat16 if `half` is not 0.
std::int32_t additive_scores(const Problem* problem, int half, void* scores, ParallelFor parallel_for) {
  return half ? forward(*problem, static_cast<Half*>(scores), parallel_for)
              : forward(*problem, static_cast<float*>(scores), parallel_for);
}

// Compute the gradients from those of the scores. The energy's is in float32, one per batch row.
std::int32_t additive_gradients(const Problem* problem, int half, const void* scores, void* query, void* key,
                                float* energy, ParallelFor parallel_for) {
  if (half) {
    const auto of = [](void* numbers) { return static_cast<Half*>(numbers); };
    return backward<Half>(*problem, {static_cast<const Half*>(scores), of(query), of(key), energy}, parallel_for);
  }
  const auto of = [](void* numbers) { return static_cast<float*>(numbers); };
  return backward<float>(*problem, {static_cast<const float*>(scores), of(query), of(key), energy}, parallel_for);
}

}  // extern "C"
