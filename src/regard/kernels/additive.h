// Additive scores e_ti = sum_d v_d tanh(q_td + k_id), without storing query x key x width numbers.
//
// With a = e^2q - 1, computed once per query, and s = e^2k - 1 (for k < 0: 1 - e^-2k), computed once per key,
//
//     tanh(q + k) = n / d,   n = a + s m,   d = a + |s| m + 2,   m = 1 + a if s > 0 else 1.
//
// Only q + k itself cancels, so n and d keep their digits if both sides are small and also if they are large and
// opposite. So does h = (1 - |tanh|) / 2, because (d - |n|) / 2 is one of 1, 1 + a, 1 + |s| and their product; it gives
// sech^2 = 4 h (1 - h). If both queries and keys are too large, each pair computes its own exponential.

#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

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

// Number of blocks of LANES in a row of exponentials, which is padded to a multiple of ROUND on every machine.
constexpr Size ROUND = 16;
Size blocks_of(Size width) { return parts(width, ROUND) * (ROUND / LANES); }

template <class Number>
bool shareable(const Number* query, Size queries, const Number* key, Size keys, Size width, Size row) {
  return within(NEAR, query, queries, width, row) || within(NEAR, key, keys, width, row);
}

constexpr int SIDE = 4;  // queries, and keys, whose sums are held in registers

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

template <class Rule, class Number, int ROWS, int COLUMNS>
inline void pairs(const typename Rule::Query* query, const typename Rule::Key* key, const Vec* energy, Size blocks,
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
      const auto work = columns ? (rows ? &pairs<Rule, Number, SIDE, SIDE> : &pairs<Rule, Number, 1, SIDE>)
                                : (rows ? &pairs<Rule, Number, SIDE, 1> : &pairs<Rule, Number, 1, 1>);
      work(query + t * blocks, key + i * blocks, energy, blocks, scores + t * row + i, row);
      t += rows ? SIDE : 1;
    }
    i += columns ? SIDE : 1;
  }
}

// Room for the exponentials or the numbers of one block of queries and keys.
struct Room {
  std::vector<Exponentials> shared;
  std::vector<Vec> energy, raw;
};

// Scores (query, key), `row` apart, of queries and keys that have `width` numbers each, and exponentials of the keys.
template <class Number>
void sums_of_pairs(const Number* query, Size queries, const Number* key, const Stored* exponentials, Size keys,
                   const float* energy, Size width, Number* scores, Size row, Room& room) {
  const Size blocks = blocks_of(width);
  room.energy.resize(blocks);
  prepare(room.energy.data(), energy, 1, width, width, blocks, as_is);
  if (shareable(query, queries, key, keys, width, width)) {
    room.shared.resize(queries * blocks);
    prepare(room.shared.data(), query, queries, width, width, blocks, Shared::query);
    score<Shared>(room.shared.data(), queries, exponentials, keys, room.energy.data(), blocks, scores, row);
  } else {
    room.raw.resize((queries + keys) * blocks);
    Vec* raw = room.raw.data() + queries * blocks;
    prepare(room.raw.data(), query, queries, width, width, blocks, as_is);
    prepare(raw, key, keys, width, width, blocks, as_is);
    score<Direct>(room.raw.data(), queries, raw, keys, room.energy.data(), blocks, scores, row);
  }
}

}  // namespace
