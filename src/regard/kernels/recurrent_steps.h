// The steps of a recurrent decoder in a search, as instructions on registers.

#pragma once

#include <vector>

#include "additive.h"
#include "layer.h"
#include "steps.h"

namespace {

enum Kind : std::int32_t { EMBED, COPY, MAP, CELL, READ };
enum After : std::int32_t { NOTHING, TANH, MAXOUT };                    // a map
enum Cell : std::int32_t { SIMPLE, GATED, LONG_SHORT, RESET, UPDATE };  // the last two are halves of a cell

// Prepared keys and values of the sources. Without an energy scores are products, whose scale the query has. With one
// they are sums: keys (source, key, width) side by side, with their exponentials.
struct Source {
  Readable memory;
  const std::int64_t* lengths;  // (source,), or all keys are read
  const float *exponentials, *energy;
  Size heads, keys, key_width, value_width;
};

// Registers hold a row of numbers for each hypothesis.
//
//     EMBED: to = scale table[last token]
//     COPY:  to = from[0]
//     MAP:   to = after(scale linear(from[0]))
//     CELL:  to = the cell's state after its projected input from[0] and projected state from[1]; from[2] is an LSTM's
//            own memory, which changes, or what RESET and UPDATE need beside them
//     READ:  to = what the query from[0] reads
//
// Instructions write to the register `to` from number `place` on, and COPY reads `count` numbers from `first` on.
struct Instruction {
  std::int32_t kind, variant;
  Size from[3], to, place, first, count;
  Linear linear;
  const float* table;
  float scale;
  const Source* source;
};

// A register that is carried to the next step has a first content (source, width).
struct Register {
  Size width;
  const float* first;
};

// The features, from which the output layer computes logits, are in register `features` after all instructions.
struct Program {
  const Register* registers;
  Size register_count;
  const Instruction* instructions;
  Size instruction_count, sources, features;
  Linear output;
};

Vec hyperbolic(Vec x) {
  const Exponentials e = exponentials(cut(x, 20.0f));
  return e.less_one / (e.less_one + 2.0f);
}

Vec logistic(Vec x) { return 1.0f / (1.0f + exponential(-x)); }

class RecurrentSteps : public Steps {
 public:
  RecurrentSteps(const Program& program, Size texts, ParallelFor parallel_for)
      : parallel_for(parallel_for), layout(program.registers, program.registers + program.register_count),
        code(program.instructions, program.instructions + program.instruction_count), features(program.features),
        last(program.output), registers(layout.size()) {
    for (Size each = 0; each < program.register_count; ++each) {
      if (layout[each].first) {
        registers[each].assign(layout[each].first, layout[each].first + program.sources * layout[each].width);
      }
    }
    if (texts >= MANY) {
      pack(last);
      for (Instruction& each : code) {
        if (each.kind == MAP) {
          pack(each.linear);
        }
      }
    }
  }

  const Linear& output() const override { return last; }

  const float* run(const Hypotheses& now) override {
    follow(now);
    for (const Instruction& each : code) {
      if (step(each, now)) {
        return nullptr;
      }
    }
    return registers[features].data();
  }

 private:
  void pack(Linear& linear) {
    panels.push_back(packed(linear, parallel_for));
    linear.panels = panels.back().data();
  }

  // Each hypothesis continues with what the one that it extends has carried here.
  void follow(const Hypotheses& now) {
    for (std::size_t each = 0; each < layout.size(); ++each) {
      const Size width = layout[each].width;
      if (!layout[each].first) {
        registers[each].resize(now.count * width);
        continue;
      }
      std::vector<float> next(now.count * width);
      for (Size row = 0; row < now.count; ++row) {
        std::copy_n(&registers[each][now.parents[row] * width], width, &next[row * width]);
      }
      registers[each] = std::move(next);
    }
  }

  float* place(const Instruction& i, Size row) { return &registers[i.to][row * layout[i.to].width + i.place]; }
  const float* input(const Instruction& i, int which, Size row) const {
    return &registers[i.from[which]][row * layout[i.from[which]].width];
  }

  std::int32_t step(const Instruction& i, const Hypotheses& now) {
    switch (i.kind) {
      case EMBED:
        for (Size row = 0; row < now.count; ++row) {
          const float* vector = i.table + now.last[row] * i.count;
          for (Size k = 0; k < i.count; k += LANES) {
            const Size some = std::min<Size>(LANES, i.count - k);
            store(place(i, row) + k, i.scale * load(vector + k, some), some);
          }
        }
        return 0;
      case COPY:
        for (Size row = 0; row < now.count; ++row) {
          std::copy_n(input(i, 0, row) + i.first, i.count, place(i, row));
        }
        return 0;
      case MAP:
        return map(i, now.count);
      case CELL:
        return in_parallel(parallel_for, now.count, 16 * i.count, [&](Size begin, Size end) {
          for (Size row = begin; row < end; ++row) {
            cell(i, row);
          }
        });
      default:
        return i.source->energy ? read_by_sums(i, now) : read_by_products(i, now);
    }
  }

  std::int32_t map(const Instruction& i, Size rows) {
    return apply(i.linear, registers[i.from[0]].data(), rows, parallel_for,
                 [&](Size row, Size first, Vec numbers, Size count) {
                   if (i.variant == MAXOUT) {  // of pairs
                     const Stored lanes = numbers;
                     for (Size pair = 0; pair < count / 2; ++pair) {
                       const float left = lanes.numbers[2 * pair], right = lanes.numbers[2 * pair + 1];
                       place(i, row)[first / 2 + pair] = left >= right || left != left ? left : right;
                     }
                   } else {
                     numbers *= i.scale;
                     store(place(i, row) + first, i.variant == TANH ? hyperbolic(numbers) : numbers, count);
                   }
                 });
  }

  // Gates stand one after the other, each `count` numbers wide, as PyTorch's cells have them.
  void cell(const Instruction& i, Size row) {
    const float *x = input(i, 0, row), *h = input(i, 1, row);
    float *to = place(i, row), *own = i.variant < LONG_SHORT ? nullptr : &registers[i.from[2]][0];
    for (Size k = 0; k < i.count; k += LANES) {
      const Size some = std::min<Size>(LANES, i.count - k);
      const auto at = [&](const float* from, Size gate) { return load(from + gate * i.count + k, some); };
      const auto sum = [&](Size gate) { return at(x, gate) + at(h, gate); };
      float* extra = own ? own + row * layout[i.from[2]].width : nullptr;
      const Vec before = load(to + k, some);
      switch (i.variant) {
        case SIMPLE:
          store(to + k, hyperbolic(sum(0)), some);
          break;
        case GATED: {
          const Vec fresh = hyperbolic(at(x, 2) + logistic(sum(0)) * at(h, 2));
          store(to + k, fresh + logistic(sum(1)) * (before - fresh), some);
          break;
        }
        case LONG_SHORT: {
          const Vec kept = logistic(sum(1)) * at(extra, 0) + logistic(sum(0)) * hyperbolic(sum(2));
          store(extra + k, kept, some);
          store(to + k, logistic(sum(3)) * hyperbolic(kept), some);
          break;
        }
        case RESET:  // the state, `extra`, before the candidate's map
          store(to + k, logistic(sum(0)) * at(extra, 0), some);
          break;
        default:  // the candidate's map is `extra`
          store(to + k, before + logistic(sum(1)) * (hyperbolic(at(x, 2) + at(extra, 0)) - before), some);
      }
    }
  }

  std::int32_t read_by_products(const Instruction& i, const Hypotheses& now) {
    const Source& source = *i.source;
    Readable memory = source.memory;
    memory.rows = now.sources;
    memory.text_step = 1;
    memory.place_step = 0;
    memory.known = source.keys;
    const Size width = source.key_width, work = source.keys * 2 * width;
    return in_parallel(parallel_for, now.count * source.heads, work, [&](Size begin, Size end) {
      std::vector<float> scores(source.keys);
      for (Size unit = begin; unit < end; ++unit) {
        const Size row = unit / source.heads, head = unit % source.heads;
        const Size keys = source.lengths ? source.lengths[now.sources[row]] : source.keys;
        read(memory, row, head, input(i, 0, row) + head * width, keys, width, scores.data(),
             place(i, row) + head * width);
      }
    });
  }

  // All hypotheses of a source read it together.
  std::int32_t read_by_sums(const Instruction& i, const Hypotheses& now) {
    const Source& source = *i.source;
    const Size blocks = blocks_of(source.key_width);
    std::vector<Size> firsts;
    for (Size row = 0; row < now.count; ++row) {
      if (!row || now.sources[row] != now.sources[row - 1]) {
        firsts.push_back(row);
      }
    }
    const Size groups = firsts.size(), work = source.keys * 4 * source.key_width * now.count / groups;
    firsts.push_back(now.count);
    return in_parallel(parallel_for, groups, work, [&](Size begin, Size end) {
      Room room;
      std::vector<float> scores;
      for (Size group = begin; group < end; ++group) {
        const Size row = firsts[group], queries = firsts[group + 1] - row, from = now.sources[row];
        const Size keys = source.lengths ? source.lengths[from] : source.keys;
        const auto* ready = reinterpret_cast<const Stored*>(source.exponentials) + from * source.keys * blocks;
        scores.resize(queries * keys);
        sums_of_pairs(input(i, 0, row), queries, source.memory.key + from * source.keys * source.key_width, ready, keys,
                      source.energy, source.key_width, scores.data(), keys, room);
        for (Size each = 0; each < queries; ++each) {
          mix(source.memory, from, 0, scores.data() + each * keys, keys, source.value_width, place(i, row + each));
        }
      }
    });
  }

  ParallelFor parallel_for;
  const std::vector<Register> layout;
  std::vector<Instruction> code;
  Size features;
  Linear last;
  std::vector<std::vector<float>> registers;
  std::vector<std::vector<Vec>> panels;
};

}  // namespace
