// Products of rows with a PyTorch weight (outputs, depth), read in place or from panels packed before: y_mn = sum_k x_mk w_nk, in
// float32, or of bytes in 32-bit integers.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "parallel.h"
#include "vectors.h"

namespace {

// A kind of number: the content of a lane, and its multiply-add.
struct Floats {
  using Number = float;
  using Lanes = Vec;
  static Lanes add(Lanes sum, Lanes x, Lanes weight) { return sum + x * weight; }
  static Lanes same(Number number) { return all(number); }
};

struct Bytes {  // four to a lane: x from 0 to 255, weights from -127 to 127
  using Number = std::int32_t;
  using Lanes = Whole;
  static Lanes add(Lanes sum, Lanes x, Lanes weight) {
#ifdef __AVX512VNNI__
    return reinterpret_cast<Whole>(_mm512_dpbusd_epi32(
        reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(x), reinterpret_cast<__m512i>(weight)));
#else
    for (int shift = 0; shift < 32; shift += 8) {
      sum += (x >> shift & 0xff) * (weight << (24 - shift) >> 24);
    }
    return sum;
#endif
  }
  static Lanes same(Number number) { return number - Lanes{}; }
};

// Interleave two vectors: first the lanes whose index lacks the bit SIDE, then those that have it.
template <int SIDE, class Lanes, int... LANE>
Lanes lower(Lanes a, Lanes b, std::integer_sequence<int, LANE...>) {
  return __builtin_shufflevector(a, b, (LANE & SIDE ? LANE - SIDE + LANES : LANE)...);
}
template <int SIDE, class Lanes, int... LANE>
Lanes upper(Lanes a, Lanes b, std::integer_sequence<int, LANE...>) {
  return __builtin_shufflevector(a, b, (LANE & SIDE ? LANE + LANES : LANE + SIDE)...);
}
constexpr auto EVERY = std::make_integer_sequence<int, LANES>{};

// The sums of LANES vectors; the sum of vector i is in lane i.
template <int SIDE = LANES / 2, class Lanes>
inline Lanes totals(Lanes* vectors) {
#pragma GCC unroll 16
  for (int i = 0; i < SIDE; ++i) {
    vectors[i] = lower<SIDE>(vectors[i], vectors[i + SIDE], EVERY) + upper<SIDE>(vectors[i], vectors[i + SIDE], EVERY);
  }
  if constexpr (SIDE > 1) {
    return totals<SIDE / 2>(vectors);
  } else {
    return vectors[0];
  }
}

// Transpose.
template <int SIDE = LANES / 2, class Lanes>
inline void transpose(Lanes* rows) {
#pragma GCC unroll 16
  for (int i = 0; i < LANES; ++i) {
    if (!(i & SIDE)) {
      const Lanes low = lower<SIDE>(rows[i], rows[i + SIDE], EVERY);
      rows[i + SIDE] = upper<SIDE>(rows[i], rows[i + SIDE], EVERY);
      rows[i] = low;
    }
  }
  if constexpr (SIDE > 1) {
    transpose<SIDE / 2>(rows);
  }
}

// One product of rows x `(rows, depth)` and weights `(outputs, depth)`. `write(row, first, sums, count)` receives
// `count` sums, at most LANES, of a row's outputs from `first` on. With `panels`, the weights as `pack` lays them out,
// many rows are multiplied sooner.
template <class Kind>
struct Product {
  const typename Kind::Number *x, *weight;
  Size rows, depth, outputs;
  const typename Kind::Lanes* panels = nullptr;
};

constexpr Size MANY = 12;      // number of rows from which transposing a panel of weights pays
constexpr Size STRETCH = 128;  // length of a running sum; longer rows use sums of sums, which round less

// Few rows: ROWS of them and LANES outputs, multiplied without transposing, LANES / ROWS outputs at a time.
template <class Kind, int ROWS, class Write>
inline void few(const Product<Kind>& p, Size row, Size first, const Write& write) {
  using Lanes = typename Kind::Lanes;
  constexpr int OUTPUTS = LANES / ROWS;
  typename Kind::Number found[ROWS][LANES];
  for (int block = 0; block < ROWS; ++block) {
    const typename Kind::Number *x = p.x + row * p.depth, *weights[OUTPUTS];
    for (int o = 0; o < OUTPUTS; ++o) {
      weights[o] = p.weight + std::min(first + block * OUTPUTS + o, p.outputs - 1) * p.depth;
    }
    Lanes sums[LANES] = {};
    const auto add = [&](Size k, Size some) __attribute__((always_inline)) {
      Lanes numbers[ROWS];
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        numbers[r] = take<Lanes>(x + r * p.depth + k, some);
      }
#pragma GCC unroll 16
      for (int o = 0; o < OUTPUTS; ++o) {
        const Lanes weight = take<Lanes>(weights[o] + k, some);
        __builtin_prefetch(weights[o] + k + OUTPUTS * p.depth, 0, 2);  // the next outputs
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; ++r) {
          sums[r * OUTPUTS + o] = Kind::add(sums[r * OUTPUTS + o], numbers[r], weight);
        }
      }
    };
    Size k = 0;
    for (; k + LANES <= p.depth; k += LANES) {
      add(k, LANES);
    }
    if (k < p.depth) {
      add(k, p.depth - k);
    }
    const Lanes summed = totals(sums);
    for (int r = 0; r < ROWS; ++r) {
      std::memcpy(found[r] + block * OUTPUTS, reinterpret_cast<const typename Kind::Number*>(&summed) + r * OUTPUTS,
                  OUTPUTS * sizeof(typename Kind::Number));
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    write(row + r, first, take<Lanes>(found[r], LANES), std::min<Size>(LANES, p.outputs - first));
  }
}

// Many rows: ROWS of them and both halves of a transposed panel, contiguous `(depth, 2 LANES)`.
template <class Kind, int ROWS, class Write>
inline void tile(const Product<Kind>& p, const typename Kind::Lanes* panel, Size row, Size first, const Write& write) {
  using Lanes = typename Kind::Lanes;
  Lanes sums[ROWS][2] = {};
  const typename Kind::Number* x = p.x + row * p.depth;
  for (Size begin = 0; begin < p.depth; begin += STRETCH) {
    Lanes some[ROWS][2] = {};
    for (Size k = begin; k < std::min(begin + STRETCH, p.depth); ++k) {
      const Lanes left = panel[2 * k], right = panel[2 * k + 1];
#pragma GCC unroll 12
      for (int r = 0; r < ROWS; ++r) {
        const Lanes number = Kind::same(x[r * p.depth + k]);
        some[r][0] = Kind::add(some[r][0], number, left);
        some[r][1] = Kind::add(some[r][1], number, right);
      }
    }
    for (int r = 0; r < ROWS; ++r) {
      sums[r][0] += some[r][0];
      sums[r][1] += some[r][1];
    }
  }
  for (int r = 0; r < ROWS; ++r) {
    for (int half = 0; half < 2; ++half) {
      const Size at = first + half * LANES;
      if (at < p.outputs) {
        write(row + r, at, sums[r][half], std::min<Size>(LANES, p.outputs - at));
      }
    }
  }
}

// Transpose the weights from output `first` on: 2 LANES outputs side by side, zeros past the last.
template <class Kind>
inline void turn(const Product<Kind>& p, Size first, typename Kind::Lanes* panel) {
  typename Kind::Lanes block[LANES];
  for (Size k = 0; k < p.depth; k += LANES) {
    const Size some = std::min<Size>(LANES, p.depth - k);
    for (int half = 0; half < 2; ++half) {
      for (int o = 0; o < LANES; ++o) {
        const Size output = first + half * LANES + o;
        const typename Kind::Number* weight = p.weight + output * p.depth + k;
        __builtin_prefetch(weight + 2 * LANES * p.depth, 0, 2);  // the next panel
        block[o] = output < p.outputs ? take<typename Kind::Lanes>(weight, some) : typename Kind::Lanes{};
      }
      transpose(block);
      for (Size o = 0; o < some; ++o) {
        panel[2 * (k + o) + half] = block[o];
      }
    }
  }
}

// All panels of the weights, one after the other.
template <class Kind>
void pack(const Product<Kind>& p, typename Kind::Lanes* panels, ParallelFor parallel_for) {
  in_parallel(parallel_for, parts(p.outputs, 2 * LANES), 2 * LANES * p.depth, [&](Size begin, Size end) {
    for (Size each = begin; each < end; ++each) {
      turn(p, each * 2 * LANES, panels + each * 2 * p.depth);
    }
  });
}

// Compute outputs 2 LANES * `begin` to 2 LANES * `end` of all rows.
template <class Kind, class Write>
void multiply(const Product<Kind>& p, Size begin, Size end, const Write& write) {
  const Size from = 2 * LANES * begin, to = std::min(2 * LANES * end, p.outputs);
  if (p.rows < MANY) {
    for (Size first = from; first < to; first += LANES) {
      Size row = 0;
      for (; row + 4 <= p.rows; row += 4) {
        few<Kind, 4>(p, row, first, write);
      }
      for (; row + 2 <= p.rows; row += 2) {
        few<Kind, 2>(p, row, first, write);
      }
      for (; row < p.rows; ++row) {
        few<Kind, 1>(p, row, first, write);
      }
    }
    return;
  }
  std::vector<typename Kind::Lanes> turned(p.panels ? 0 : 2 * p.depth);
  constexpr int ROWS = LANES == 16 ? MANY : 4;
  for (Size first = from; first < to; first += 2 * LANES) {
    const typename Kind::Lanes* panel = p.panels + first * p.depth / LANES;
    if (!p.panels) {
      turn(p, first, turned.data());
      panel = turned.data();
    }
    Size row = 0;
    for (; row + ROWS <= p.rows; row += ROWS) {
      tile<Kind, ROWS>(p, panel, row, first, write);
    }
    for (; row + 4 <= p.rows; row += 4) {
      tile<Kind, 4>(p, panel, row, first, write);
    }
    for (; row < p.rows; ++row) {
      tile<Kind, 1>(p, panel, row, first, write);
    }
  }
}

}  // namespace
