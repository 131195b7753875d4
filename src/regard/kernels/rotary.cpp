// Rotations of pairs of dimensions (i, i + width / 2), which read and write each state once.

#include <algorithm>
#include <cstdint>

#include "parallel.h"
#include "vectors.h"

namespace {

// The arguments from Python. Steps of states and results are those of their first three axes, in numbers; a row of them
// is contiguous. `turns` has the cosines of all positions, `sines` numbers before their sines; `turn_step` is the step of
// its rows, 0 if they share it.
struct Problem {
  const void* states;
  void* result;
  const void* turns;
  Size rows, heads, positions, width;
  Size from[3], to[3], sines, turn_step;
};

template <class Number>
void turn(const Number* x, const Number* cos, const Number* sin, float sign, Number* to, Size half) {
  for (Size i = 0; i < half; i += LANES) {
    const Size count = std::min<Size>(LANES, half - i);
    const Vec first = load(x + i, count), second = load(x + half + i, count);
    const Vec along = load(cos + i, count), across = sign * load(sin + half + i, count);
    store(to + i, first * along - second * across, count);
    store(to + half + i, second * along + first * across, count);
  }
}

template <class Number>
std::int32_t turn_all(const Problem& p, float sign, ParallelFor parallel_for) {
  return in_parallel(parallel_for, p.rows * p.positions, p.heads * p.width, [&](Size begin, Size end) {
    for (Size unit = begin; unit < end; ++unit) {
      const Size row = unit / p.positions, position = unit % p.positions;
      const Number* cos = static_cast<const Number*>(p.turns) + row * p.turn_step + position * p.width;
      const Number* from = static_cast<const Number*>(p.states) + row * p.from[0] + position * p.from[2];
      Number* to = static_cast<Number*>(p.result) + row * p.to[0] + position * p.to[2];
      for (Size head = 0; head < p.heads; ++head) {
        turn(from + head * p.from[1], cos, cos + p.sines, sign, to + head * p.to[1], p.width / 2);
      }
    }
  });
}

}  // namespace

extern "C" {

// Turn states (row, head, position, width), or turn them back if `sign` is -1. All numbers are in bfloat16 if `half` is
// not 0. Return 0 on success.
std::int32_t rotary_turn(const Problem* problem, float sign, int half, ParallelFor parallel_for) {
  return half ? turn_all<Half>(*problem, sign, parallel_for) : turn_all<float>(*problem, sign, parallel_for);
}

}  // extern "C"
