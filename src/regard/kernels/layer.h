// A Transformer's layer on a CPU, for inference: every weight is read once, and intermediate results are written to
// memory only where the next product reads them.
//
// The sums of a row depend on the other rows only in the order of their terms: see `MANY` in products.h.

#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "linear.h"
#include "parallel.h"
#include "vectors.h"

namespace {

struct Norm {
  const float *weight, *bias;
  float epsilon;
};

enum Activation : std::int32_t { RELU, GELU, GELU_TANH, SWISH };

// Sublayers in their order, each with its norm: self-attention, cross-attention if there is one, feed-forward.
struct Layer {
  Linear own_query, own_key, own_value, own_output;
  Linear query, output;  // of the cross-attention, whose keys and values are prepared
  Linear wide, narrow;
  Norm own_norm, norm, network_norm;
  Size width, heads, key_value_heads;  // heads of keys and values that the heads share, as many as are side by side
  std::int32_t crossed, before, activation;  // `before`: norms stand before the sublayers
};

// Keys and values (row, head, key, width), with strides in numbers. A text reads position `key` < `known` from the row
// `rows[text * text_step + key * place_step]`, and all other positions from its own row.
struct Readable {
  float *key, *value;
  Size row_step, head_step, key_step;
  const std::int64_t* rows;
  Size text_step, place_step, known;

  Size row(Size text, Size key) const {
    return rows && key < known ? rows[text * text_step + key * place_step] : text;
  }
  Size place(Size text, Size head, Size key) const {  // of its first number
    return row(text, key) * row_step + head * head_step + key * key_step;
  }
};

struct Memories {  // the memories that a layer reads
  Readable own, source;
};

// `states (text, position, width)` are changed in place. Their own keys follow `length` earlier ones: if `causal`, a
// position reads none behind it, else it reads those of the first `lengths[text]` positions. It reads all `source_keys`
// of the source, or the first `source_lengths` of its row.
struct Call {
  float* states;
  Size texts, positions, length, source_keys;
  const std::int64_t *lengths, *source_lengths;
  std::int32_t causal;
  float* scratch;  // texts x positions x (2 width + hidden)
};

Vec activated(Vec x, std::int32_t activation) {
  switch (activation) {
    case RELU:
      return x < Vec{} ? Vec{} : x;
    case GELU_TANH:
      return x / (1.0f + exponential(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
    case SWISH:
      return x / (1.0f + exponential(-x));
    default:
      for (int lane = 0; lane < LANES; ++lane) {
        x[lane] *= 0.5f * (1.0f + std::erf(x[lane] * 0.70710678118654752f));
      }
      return x;
  }
}

void normalise(const Norm& norm, const float* from, Size rows, Size width, float* to) {
  for (Size row = 0; row < rows; ++row, from += width, to += width) {
    Vec sum{}, square{};
    for (Size k = 0; k < width; k += LANES) {
      sum += load(from + k, width - k);
    }
    const float mean = total(sum) / width;
    for (Size k = 0; k < width; k += LANES) {
      const Vec apart = kept(load(from + k, width - k) - mean, width - k);
      square += apart * apart;
    }
    const float factor = 1.0f / std::sqrt(total(square) / width + norm.epsilon);
    for (Size k = 0; k < width; k += LANES) {
      const Size count = std::min<Size>(LANES, width - k);
      const Vec apart = (load(from + k, count) - mean) * factor;
      store(to + k, apart * load(norm.weight + k, count) + load(norm.bias + k, count), count);
    }
  }
}

// The mixture of values, weighted by the softmax of the scores of the first `keys` keys of one text and head.
void mix(const Readable& memory, Size text, Size head, float* scores, Size keys, Size width, float* context) {
  const float most = keys ? *std::max_element(scores, scores + keys) : 0.0f;
  Vec sum{};
  for (Size first = 0; first < keys; first += LANES) {
    const Size count = std::min<Size>(LANES, keys - first);
    const Vec weights = kept(exponential(load(scores + first, count) - most), count);
    sum += weights;
    store(scores + first, weights, count);
  }
  const float factor = keys ? 1.0f / total(sum) : 0.0f;
  for (Size k = 0; k < width; k += LANES) {
    const Size count = std::min<Size>(LANES, width - k);
    Vec mixed{};
    for (Size i = 0; i < keys; ++i) {
      mixed += scores[i] * load(memory.value + memory.place(text, head, i) + k, count);
    }
    store(context + k, mixed * factor, count);
  }
}

// softmax(query . key) value over the first `keys` keys of one text and head; `scores` has room for them.
void read(const Readable& memory, Size text, Size head, const float* query, Size keys, Size width, float* scores,
          float* context) {
  for (Size first = 0; first < keys; first += LANES) {
    const Size count = std::min<Size>(LANES, keys - first);
    Vec sums[LANES] = {};
    for (Size i = 0; i < count; ++i) {
      const float* key = memory.key + memory.place(text, head, first + i);
      for (Size k = 0; k < width; k += LANES) {
        sums[i] += load(query + k, width - k) * load(key + k, width - k);
      }
    }
    store(scores + first, totals(sums), count);
  }
  mix(memory, text, head, scores, keys, width, context);
}

// Replace all queries `(text, position, head x width)` by their contexts.
std::int32_t read_all(const Layer& layer, const Call& call, const Readable& memory, bool own, float* query,
                      ParallelFor parallel_for) {
  const Size keys = own ? call.length + call.positions : call.source_keys, width = layer.width / layer.heads;
  const std::int64_t* lengths = own ? call.lengths : call.source_lengths;
  const Size work = call.positions * keys * width;
  return in_parallel(parallel_for, call.texts * layer.heads, work, [&](Size begin, Size end) {
    std::vector<float> scores(keys), context(width);
    const Size sharing = layer.heads / layer.key_value_heads;
    for (Size unit = begin; unit < end; ++unit) {
      const Size text = unit / layer.heads, head = unit % layer.heads;
      for (Size position = 0; position < call.positions; ++position) {
        float* one = query + (text * call.positions + position) * layer.width + head * width;
        const bool grows = own && call.causal;
        const Size most = grows ? call.length + position + 1 : lengths ? lengths[memory.row(text, 0)] : keys;
        read(memory, text, head / sharing, one, most, width, scores.data(), context.data());
        std::memcpy(one, context.data(), width * sizeof(float));
      }
    }
  });
}

class Pass {
 public:
  Pass(const Layer& layer, const Memories& memories, const Call& call, ParallelFor parallel_for)
      : l(layer), m(memories), c(call), parallel_for(parallel_for), rows(call.texts * call.positions) {
    normed = call.scratch;
    query = normed + rows * layer.width;
    inner = query + rows * layer.width;
  }

  std::int32_t own() {
    const float* x = before(l.own_norm);
    failed |= projected(l.own_query, x);
    failed |= kept_for_later(l.own_key, x, m.own.key) | kept_for_later(l.own_value, x, m.own.value);
    failed |= read_all(l, c, m.own, true, query, parallel_for);
    return after(l.own_norm, l.own_output, query);
  }

  std::int32_t crossed() {
    failed |= projected(l.query, before(l.norm));
    failed |= read_all(l, c, m.source, false, query, parallel_for);
    return after(l.norm, l.output, query);
  }

  std::int32_t network() {
    const float* x = before(l.network_norm);
    failed |= apply(l.wide, x, rows, parallel_for, [&](Size row, Size first, Vec numbers, Size count) {
      store(inner + row * l.wide.outputs + first, activated(numbers, l.activation), count);
    });
    return after(l.network_norm, l.narrow, inner);
  }

 private:
  const float* before(const Norm& norm) {
    if (!l.before) {
      return c.states;
    }
    normalise(norm, c.states, rows, l.width, normed);
    return normed;
  }

  std::int32_t after(const Norm& norm, const Linear& linear, const float* from) {
    failed |= apply(linear, from, rows, parallel_for, [&](Size row, Size first, Vec numbers, Size count) {
      float* to = c.states + row * l.width + first;
      store(to, load(to, count) + numbers, count);
    });
    if (!l.before) {
      normalise(norm, c.states, rows, l.width, c.states);
    }
    return failed;
  }

  std::int32_t projected(const Linear& linear, const float* x) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(l.width / l.heads));
    return apply(linear, x, rows, parallel_for, [&](Size row, Size first, Vec numbers, Size count) {
      store(query + row * l.width + first, numbers * scale, count);
    });
  }

  // (text, position, head x width) to (text, head, length + position, width).
  std::int32_t kept_for_later(const Linear& linear, const float* x, float* to) {
    const Size width = l.width / l.heads;
    return apply(linear, x, rows, parallel_for, [&](Size row, Size first, Vec numbers, Size count) {
      float* place = to + row / c.positions * m.own.row_step + (c.length + row % c.positions) * m.own.key_step;
      for (Size done = 0; done < count;) {
        const Size head = (first + done) / width, at = (first + done) % width, some = std::min(count - done, width - at);
        std::memcpy(place + head * m.own.head_step + at, reinterpret_cast<const float*>(&numbers) + done,
                    some * sizeof(float));
        done += some;
      }
    });
  }

  const Layer& l;
  const Memories& m;
  const Call& c;
  ParallelFor parallel_for;
  Size rows;
  float *normed, *query, *inner;
  std::int32_t failed = 0;
};

}  // namespace
