// Products of a few rows, which read the weights once, and the cells of recurrent networks on top of them.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.h"
#include "vectors.h"

namespace {

constexpr Size MOST_ROWS = 6;
constexpr Size TOGETHER = 4;  // columns of a unit of work
constexpr Size AHEAD = 512;   // numbers that are fetched before their turn

Vec whole(const float* from) { return *reinterpret_cast<const Stored*>(from); }

template <int ROWS>
void multiply(const float* inputs, Size width, const float* weight, const float* bias, Size begin, Size end,
              Size columns, float* outputs) {
  constexpr int LINES = ROWS > 2 ? 2 : 4;
  const Size full = width / LANES * LANES, rest = width - full;
  for (Size column = begin; column < end; column += LINES) {
    const Size count = std::min<Size>(LINES, end - column);
    const float* lines[LINES];
    for (Size c = 0; c < LINES; ++c) lines[c] = weight + (column + std::min(c, count - 1)) * width;
    Vec sums[LINES][ROWS] = {};
    for (Size k = 0; k < full; k += LANES) {
      Vec numbers[LINES];
#pragma GCC unroll 4
      for (int c = 0; c < LINES; ++c) {
        __builtin_prefetch(lines[c] + k + AHEAD);
        numbers[c] = whole(lines[c] + k);
      }
#pragma GCC unroll 6
      for (int row = 0; row < ROWS; ++row) {
        const Vec input = whole(inputs + row * width + k);
#pragma GCC unroll 4
        for (int c = 0; c < LINES; ++c) sums[c][row] += numbers[c] * input;
      }
    }
    for (Size c = 0; c < count; ++c) {
      for (int row = 0; row < ROWS; ++row) {
        if (rest) sums[c][row] += load(lines[c] + full, rest) * load(inputs + row * width + full, rest);
        outputs[row * columns + column + c] = total(sums[c][row]) + (bias ? bias[column + c] : 0.0f);
      }
    }
  }
}

using Multiply = void (*)(const float*, Size, const float*, const float*, Size, Size, Size, float*);
constexpr Multiply MULTIPLY[MOST_ROWS] = {multiply<1>, multiply<2>, multiply<3>, multiply<4>, multiply<5>, multiply<6>};

Vec sigmoid(Vec x) { return 1.0f / (1.0f + exponential(-x)); }
Vec hyperbolic(Vec x) { return 1.0f - 2.0f / (1.0f + exponential(x + x)); }

}  // namespace

extern "C" {

// outputs (row, column) = inputs (row, width) weight^T + bias, if there is one. Return 0 on success.
std::int32_t linear(const float* inputs, Size rows, Size width, const float* weight, const float* bias, Size columns,
                    float* outputs, ParallelFor parallel_for) {
  return in_parallel(parallel_for, parts(columns, TOGETHER), TOGETHER * width, [&](Size begin, Size end) {
    MULTIPLY[rows - 1](inputs, width, weight, bias, begin * TOGETHER, std::min(columns, end * TOGETHER), columns, outputs);
  });
}

// The new state (row, parts * width), for an LSTM [h; c], of PyTorch's cell of 3 (GRU) or 4 (LSTM) gates from the maps
// of its inputs and of its old h, both (row, gates * width).
void cell(const float* inputs, const float* hidden, Size gates, Size rows, Size width, const float* before, float* after) {
  for (Size row = 0; row < rows; ++row, inputs += gates * width, hidden += gates * width) {
    for (Size k = 0; k < width; k += LANES) {
      const Size count = std::min<Size>(LANES, width - k);
      const auto gate = [&](Size g) { return load(inputs + g * width + k, count) + load(hidden + g * width + k, count); };
      if (gates == 4) {
        const Vec c = sigmoid(gate(1)) * load(before + (2 * row + 1) * width + k, count) + sigmoid(gate(0)) * hyperbolic(gate(2));
        store(after + (2 * row + 1) * width + k, c, count);
        store(after + 2 * row * width + k, sigmoid(gate(3)) * hyperbolic(c), count);
      } else {
        const Vec reset = sigmoid(gate(0)), update = sigmoid(gate(1));
        const Vec fresh = hyperbolic(load(inputs + 2 * width + k, count) + reset * load(hidden + 2 * width + k, count));
        store(after + row * width + k, fresh + update * (load(before + row * width + k, count) - fresh), count);
      }
    }
  }
}

}  // extern "C"
