// Additive scores e_ti = sum_d v_d tanh(q_td + k_id) and their gradients, without storing query x key x width numbers.
//
// With a = e^2q - 1, computed once per query, and s = e^2k - 1 (for k < 0: 1 - e^-2k), computed once per key,
//
//     tanh(q + k) = n / d,   n = a + s m,   d = a + |s| m + 2,   m = 1 + a if s > 0 else 1.
//
// Only q + k itself cancels, so n and d keep their digits if both sides are small and also if they are large and
// opposite. So does h = (1 - |tanh|) / 2, because (d - |n|) / 2 is one of 1, 1 + a, 1 + |s| and their product; it gives
// sech^2 = 4 h (1 - h). If both queries and keys are too large, each pair computes its own exponential.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "parallel.h"
#include "vectors.h"

namespace {

// tanh is 1 in float32 from 9.02 on, so if one side stays within NEAR, both can be clipped at FAR. Their sum may reach
// FURTHEST, half the logarithm of a number whose inverse is not denormal.
constexpr float NEAR = 16.0f, FAR = 26.0f, FURTHEST = NEAR + FAR;

struct Pair {
  Vec number, below, rest;  // n, d and (d - |n|) / 2
};

struct Shared {  // exponentials computed once per query and once per key
  using Query = Exponentials;
  using Key = Stored;
  static Query query(Vec x) { return exponentials(cut(x, FAR)); }
  static Vec key(Vec x) {
    const Vec s = exponentials(cut(absolute(x), FAR)).less_one;
    return x < Vec{} ? -s : s;
  }
  static Pair pair(const Query& q, const Key& stored) {
    const Vec s = stored, zero{}, one = all(1.0f), size = absolute(s), factor = s > zero ? q.whole : one;
    const Vec number = s * factor + q.less_one, below = size * factor + (q.less_one + 2.0f);
    const Vec above = s > zero ? one : size + 1.0f, under = s > zero ? size + 1.0f : one;
    return {number, below, number > zero ? above : q.whole * under};
  }
};

struct Direct {  // one exponential per pair
  using Query = Vec;
  using Key = Vec;
  static Pair pair(const Query& q, const Key& k) {
    const Exponentials e = exponentials(cut(q + k, FURTHEST));
    return {e.less_one, e.less_one + 2.0f, e.less_one > Vec{} ? all(1.0f) : e.whole};
  }
};

// The arguments from Python: batch rows of queries, keys and their exponentials, energies; sizes; and the stride of the
// batch axis of each, in numbers, 0 if all batch rows share one.
struct Problem {
  const void *query, *key;
  const float *exponentials, *energy;
  Size batches, queries, keys, width, query_step, key_step, exponentials_step, energy_step;
};
Size parts(Size size, Size part) { return (size + part - 1) / part; }

// Number of blocks of LANES in a row of exponentials, which is padded to a multiple of ROUND on every machine.
constexpr Size ROUND = 16;
Size blocks_of(Size width) { return parts(width, ROUND) * (ROUND / LANES); }

template <class Number>
bool shareable(const Number* query, Size queries, const Number* key, Size keys, Size width, Size row) {
  return within(NEAR, query, queries, width, row) || within(NEAR, key, keys, width, row);
}

constexpr Size QUERIES = 64, KEYS = 256;  // of one forward unit of work
constexpr int SIDE = 4;                   // queries, and keys, whose sums are held in registers
constexpr Size STRETCH = 64;              // keys that stay in the first cache, backward

Vec as_is(Vec x) { return x; }

// Apply `make` to rows of `width` numbers with stride `row`, and pad each row to `blocks`.
template <class Made, class Number, class Make>
void prepare(Made* to, const Number* rows, Size count, Size width, Size row, Size blocks, const Make& make) {
  for (Size each = 0; each < count; ++each) {
    for (Size block = 0; block < blocks; ++block) {
      const Size first = block * LANES;
      __builtin_prefetch(rows + each * row + first + LANES);  // the next unit's
      *to++ = make(first < width ? load(rows + each * row + first, width - first) : Vec{});
    }
  }
}

template <class Number>
std::int32_t exponentials(const Number* key, Size rows, Size width, float* to, ParallelFor parallel_for) {
  const Size blocks = blocks_of(width);
  return in_parallel(parallel_for, rows, width, [&](Size begin, Size end) {
    prepare(reinterpret_cast<Stored*>(to) + begin * blocks, key + begin * width, end - begin, width, width, blocks,
            Shared::key);
  });
}

template <class Rule, class Number, int ROWS, int COLUMNS>
inline void tile(const typename Rule::Query* query, const typename Rule::Key* key, const Vec* energy, Size blocks,
                 Number* scores, Size row) {
  Vec sums[ROWS][COLUMNS] = {};
  for (Size block = 0; block < blocks; ++block) {
#pragma GCC unroll 4
    for (int c = 0; c < COLUMNS; ++c) {
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        const Pair pair = Rule::pair(query[r * blocks + block], key[c * blocks + block]);
        sums[r][c] += energy[block] * (pair.number * inverse<std::is_same_v<Number, float>>(pair.below));
      }
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    for (int c = 0; c < COLUMNS; ++c) {
      put(scores + r * row + c, total(sums[r][c]));
    }
  }
}

template <class Rule, class Number>
void score(const typename Rule::Query* query, Size queries, const typename Rule::Key* key, Size keys, const Vec* energy,
           Size blocks, Number* scores, Size row) {
  for (Size i = 0; i < keys;) {
    const bool columns = keys - i >= SIDE;
    for (Size t = 0; t < queries;) {
      const bool rows = queries - t >= SIDE;
      const auto work = columns ? (rows ? &tile<Rule, Number, SIDE, SIDE> : &tile<Rule, Number, 1, SIDE>)
                                : (rows ? &tile<Rule, Number, SIDE, 1> : &tile<Rule, Number, 1, 1>);
      work(query + t * blocks, key + i * blocks, energy, blocks, scores + t * row + i, row);
      t += rows ? SIDE : 1;
    }
    i += columns ? SIDE : 1;
  }
}

template <class Number>
std::int32_t forward(const Problem& p, Number* scores, ParallelFor parallel_for) {
  const Size down = parts(p.queries, QUERIES), across = parts(p.keys, KEYS), blocks = blocks_of(p.width);
  const Size size = std::min(QUERIES, p.queries) * std::min(KEYS, p.keys) * p.width;
  return in_parallel(parallel_for, p.batches * down * across, size, [&](Size begin, Size end) {
    std::vector<Exponentials> q;
    std::vector<Vec> v(blocks), raw;
    for (Size unit = begin; unit < end; ++unit) {
      const Size batch = unit / (down * across), t = unit / across % down * QUERIES, i = unit % across * KEYS;
      const Size queries = std::min(QUERIES, p.queries - t), keys = std::min(KEYS, p.keys - i);
      const Number* query = static_cast<const Number*>(p.query) + batch * p.query_step + t * p.width;
      const Number* key = static_cast<const Number*>(p.key) + batch * p.key_step + i * p.width;
      Number* to = scores + (batch * p.queries + t) * p.keys + i;
      prepare(v.data(), p.energy + batch * p.energy_step, 1, p.width, p.width, blocks, as_is);
      if (shareable(query, queries, key, keys, p.width, p.width)) {
        q.resize(queries * blocks);
        prepare(q.data(), query, queries, p.width, p.width, blocks, Shared::query);
        const auto* k = reinterpret_cast<const Stored*>(p.exponentials + batch * p.exponentials_step);
        score<Shared>(q.data(), queries, k + i * blocks, keys, v.data(), blocks, to, p.keys);
      } else {
        raw.resize((queries + keys) * blocks);
        Vec* k = raw.data() + queries * blocks;
        prepare(raw.data(), query, queries, p.width, p.width, blocks, as_is);
        prepare(k, key, keys, p.width, p.width, blocks, as_is);
        score<Direct>(raw.data(), queries, k, keys, v.data(), blocks, to, p.keys);
      }
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
