// Linear maps in float32 and int8.

#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "parallel.h"
#include "products.h"
#include "vectors.h"

namespace {

// y = W x + b with W (outputs, inputs) in float32. With scales (outputs,) W is in int8, each row padded to a multiple
// of FILL, and `shift (outputs,)` is 128 times the sum of each row. `panels` are the weights of `packed`, if any.
struct Linear {
  const void* weight;
  const float *bias, *scale;
  const std::int32_t* shift;
  Size inputs, outputs;
  const void* panels;
};
constexpr Size FILL = 64;

Product<Floats> floats(const Linear& linear, const float* x, Size rows) {
  return {x, static_cast<const float*>(linear.weight), rows, linear.inputs, linear.outputs,
          static_cast<const Vec*>(linear.panels)};
}

// Of bytes, four to a number; `x` has rows of the same length.
Product<Bytes> bytes(const Linear& linear, const std::int32_t* x, Size rows) {
  return {x, static_cast<const std::int32_t*>(linear.weight), rows, parts(linear.inputs, FILL) * FILL / 4,
          linear.outputs, static_cast<const Whole*>(linear.panels)};
}

// The weights in panels, for maps that many rows read again and again.
std::vector<Vec> packed(const Linear& linear, ParallelFor parallel_for) {
  const Size depth = linear.scale ? bytes(linear, nullptr, 0).depth : linear.inputs;
  std::vector<Vec> panels(parts(linear.outputs, 2 * LANES) * 2 * depth);
  if (linear.scale) {
    pack(bytes(linear, nullptr, 0), reinterpret_cast<Whole*>(panels.data()), parallel_for);
  } else {
    pack(floats(linear, nullptr, 0), panels.data(), parallel_for);
  }
  return panels;
}

// Quantise a row to bytes around 128, and return the scale: NaN if the row contains NaN.
float quantise(const float* row, Size count, Size filled, std::uint8_t* to) {
  typedef std::uint8_t Few __attribute__((vector_size(LANES)));
  Vec most{}, wrong{};
  for (Size k = 0; k < count; k += LANES) {
    const Vec numbers = load(row + k, count - k), size = absolute(numbers);
    most = size > most ? size : most;
    wrong += numbers - numbers;
  }
  const Stored sizes = most;
  const float widest = *std::max_element(sizes.numbers, sizes.numbers + LANES);
  const float inverse = widest > 0 ? 127.0f / widest : 0.0f;
  for (Size k = 0; k < count; k += LANES) {
    const Vec numbers = load(row + k, count - k) * inverse + 128.5f;
    const Few bytes = __builtin_convertvector(__builtin_convertvector(numbers, Whole), Few);
    std::memcpy(to + k, &bytes, std::min<Size>(LANES, count - k));
  }
  std::memset(to + count, 128, filled - count);
  return widest / 127.0f + total(wrong);
}

// Rows to be multiplied, rounded to bytes if the weights are.
class Inputs {
 public:
  Inputs(const Linear& linear, const float* x, Size rows) : linear(linear), x(x), rows(rows) {
    if (!linear.scale) {
      return;
    }
    const Size filled = parts(linear.inputs, FILL) * FILL;
    codes.resize(rows * filled / 4);
    worths.resize(rows);
    for (Size row = 0; row < rows; ++row) {
      auto* to = reinterpret_cast<std::uint8_t*>(codes.data()) + row * filled;
      worths[row] = quantise(x + row * linear.inputs, linear.inputs, filled, to);
    }
  }

  Size panels() const { return parts(linear.outputs, 2 * LANES); }

  // Compute outputs 2 LANES * `begin` to 2 LANES * `end`; `write(row, first, numbers, count)` receives them as they are
  // computed.
  template <class Write>
  void multiply_panels(Size begin, Size end, const Write& write) const {
    const auto biased = [&](Size row, Size first, Vec numbers, Size count) {
      write(row, first, linear.bias ? numbers + load(linear.bias + first, count) : numbers, count);
    };
    if (!linear.scale) {
      multiply(floats(linear, x, rows), begin, end, biased);
      return;
    }
    multiply(bytes(linear, codes.data(), rows), begin, end, [&](Size row, Size first, Whole sums, Size count) {
      const Vec around = __builtin_convertvector(sums - take<Whole>(linear.shift + first, count), Vec);
      biased(row, first, around * load(linear.scale + first, count) * worths[row], count);
    });
  }

 private:
  const Linear& linear;
  const float* x;
  Size rows;
  std::vector<std::int32_t> codes;
  std::vector<float> worths;
};

// `write` as above.
template <class Write>
std::int32_t apply(const Linear& linear, const float* x, Size rows, ParallelFor parallel_for, const Write& write) {
  const Inputs inputs(linear, x, rows);
  return in_parallel(parallel_for, inputs.panels(), 2 * LANES * linear.inputs * rows,
                     [&](Size begin, Size end) { inputs.multiply_panels(begin, end, write); });
}

std::int32_t apply(const Linear& linear, const float* x, Size rows, float* to, ParallelFor parallel_for) {
  return apply(linear, x, rows, parallel_for, [&](Size row, Size first, Vec numbers, Size count) {
    store(to + row * linear.outputs + first, numbers, count);
  });
}

}  // namespace
