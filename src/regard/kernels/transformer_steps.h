// The steps of a Transformer's decoder in a search.

#pragma once

#include <vector>

#include "layer.h"
#include "steps.h"

namespace {

// What is around the layers: the embedding, whose vectors are multiplied by `scale`; encodings of positions, which are
// added; a norm, if it has a weight; the output layer.
struct Decoder {
  const Layer* layers;
  Size count;
  const float* embedding;
  float scale;
  const float* positions;
  Norm norm;
  Linear output;
};

class TransformerSteps : public Steps {
 public:
  // `memories` of each layer: storage for `longest` positions of `texts` texts, and the source.
  TransformerSteps(const Decoder& decoder, const Memories* memories, Size source_keys,
                   const std::int64_t* source_lengths, Size texts, Size longest, ParallelFor parallel_for)
      : d(decoder), memories(memories, memories + decoder.count), source_keys(source_keys),
        source_lengths(source_lengths), longest(longest), parallel_for(parallel_for),
        layers(decoder.layers, decoder.layers + decoder.count), last(decoder.output) {
    if (texts >= MANY) {
      pack_weights();
    }
  }

  const Linear& output() const override { return last; }

  const float* run(const Hypotheses& now) override {
    follow(now);
    embed(now);
    const Size width = layers[0].width;
    scratch.resize(now.count * (2 * width + layers[0].wide.outputs));
    const Call call{states.data(), now.count, 1, now.length, source_keys, nullptr, source_lengths, 1, scratch.data()};
    for (Size each = 0; each < d.count; ++each) {
      Memories memory = memories[each];
      memory.own.rows = stored.data();
      memory.own.text_step = longest;
      memory.own.place_step = 1;
      memory.own.known = now.length;
      memory.source.rows = now.sources;
      memory.source.text_step = 1;
      memory.source.place_step = 0;
      memory.source.known = source_keys;
      Pass pass(layers[each], memory, call, parallel_for);
      if (pass.own() || (layers[each].crossed && pass.crossed()) || pass.network()) {
        return nullptr;
      }
    }
    if (d.norm.weight) {
      normalise(d.norm, states.data(), now.count, width, states.data());
    }
    return states.data();
  }

 private:
  void pack_weights() {
    const auto pack = [&](Linear& linear) {
      panels.push_back(packed(linear, parallel_for));
      linear.panels = panels.back().data();
    };
    for (Layer& layer : layers) {
      for (Linear* each : {&layer.own_query, &layer.own_key, &layer.own_value, &layer.own_output, &layer.query,
                           &layer.output, &layer.wide, &layer.narrow}) {
        pack(*each);
      }
    }
    pack(last);
  }

  // Keys and values stay where they are: `stored` has the row of each position.
  void follow(const Hypotheses& now) {
    std::vector<std::int64_t> places(now.count * longest);
    for (Size row = 0; now.length && row < now.count; ++row) {
      std::int64_t* to = places.data() + row * longest;
      std::copy_n(stored.data() + now.parents[row] * longest, now.length - 1, to);
      to[now.length - 1] = now.parents[row];
    }
    stored = std::move(places);
  }

  void embed(const Hypotheses& now) {
    const Size width = layers[0].width;
    states.resize(now.count * width);
    for (Size text = 0; text < now.count; ++text) {
      for (Size k = 0; k < width; k += LANES) {
        const Size some = std::min<Size>(LANES, width - k);
        const Vec position = load(d.positions + now.length * width + k, some);
        store(&states[text * width + k], d.scale * load(d.embedding + now.last[text] * width + k, some) + position,
              some);
      }
    }
  }

  const Decoder d;
  std::vector<Memories> memories;
  Size source_keys;
  const std::int64_t* source_lengths;
  Size longest;
  ParallelFor parallel_for;
  std::vector<Layer> layers;
  Linear last;
  std::vector<std::vector<Vec>> panels;
  std::vector<std::int64_t> stored;  // (text, longest)
  std::vector<float> states, scratch;
};

}  // namespace
