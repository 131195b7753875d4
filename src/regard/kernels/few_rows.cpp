// Products of a few rows, which read the weights once, and the cells of recurrent networks on top of them.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel.h"
#include "vectors.h"

namespace {

constexpr Size MOST_ROWS = 6;
constexpr Size TOGETHER = 4;  // columns of a unit of work
constexpr Size AHEAD = 1024;  // numbers that are fetched before their turn

Vec whole(const float* from) { return *reinterpret_cast<const Stored*>(from); }

// Reads one row of the weights after the other: memory is fastest along one stream.
template <int ROWS>
void multiply(const float* inputs, Size width, const float* weight, const float* bias, Size begin, Size end,
              Size columns, float* outputs) {
  constexpr int CHAINS = ROWS > 3 ? 1 : 4 / ROWS;
  constexpr Size STEP = CHAINS * LANES;
  for (Size column = begin; column < end; ++column) {
    const float* line = weight + column * width;
    Vec sums[ROWS][CHAINS] = {};
    Size k = 0;
    for (; k + STEP <= width; k += STEP) {
#pragma GCC unroll 4
      for (int c = 0; c < CHAINS; ++c) {
        const Size place = k + c * LANES;
        __builtin_prefetch(line + place + AHEAD);
        const Vec numbers = whole(line + place);
#pragma GCC unroll 6
        for (int row = 0; row < ROWS; ++row) sums[row][c] += numbers * whole(inputs + row * width + place);
      }
    }
    for (; k < width; k += LANES) {
      const Size count = std::min<Size>(LANES, width - k);
      for (int row = 0; row < ROWS; ++row) sums[row][0] += load(line + k, count) * load(inputs + row * width + k, count);
    }
    for (int row = 0; row < ROWS; ++row) {
      for (int c = 1; c < CHAINS; ++c) sums[row][0] += sums[row][c];
      outputs[row * columns + column] = total(sums[row][0]) + (bias ? bias[column] : 0.0f);
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
