// Greedy and beam search by a Transformer's decoder, many steps in one call.

#pragma once

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "choice.h"
#include "layer.h"

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

// Hypotheses of each source: `beam` of them, or one that always takes the best token if `greedy`. No text contains the
// `closed` tokens and the last `unused` ones, and none ends before it has `least` tokens, the end included.
struct Plan {
  Size sources, beam, longest;
  const std::int64_t* limits;  // (source,), of which `longest` is the greatest
  std::int64_t start;
  const std::int64_t *ends, *closed;
  Size end_count, closed_count, unused, least;
  double alpha, offset;  // of the length penalty
  std::int32_t greedy, early;
};

struct Found {
  Size source;
  double score;
  bool finished;
  std::vector<std::int64_t> tokens;
};

enum Progress : std::int32_t { DONE, OPEN, FAILED, NO_TOKEN };

class Search {
 public:
  // `memories` of each layer: storage for `longest` positions of sources x beam texts, and the source.
  Search(const Decoder& decoder, const Memories* memories, Size source_keys, const std::int64_t* source_lengths,
         const Plan& plan, ParallelFor parallel_for)
      : d(decoder), p(plan), memories(memories, memories + decoder.count), source_keys(source_keys),
        source_lengths(source_lengths), parallel_for(parallel_for), layers(decoder.layers, decoder.layers + decoder.count),
        output(decoder.output), ended(plan.sources) {
    if (p.sources * p.beam >= MANY) {
      pack_weights();
    }
    for (Size source = 0; source < p.sources; ++source) {
      rows.push_back({source, 0.0f});
    }
    last.assign(p.sources, p.start);
  }

  Progress advance(Size steps) {
    for (Size step = 0; step < steps && !rows.empty(); ++step) {
      const Progress progress = one_step();
      if (progress != OPEN) {
        return progress;
      }
    }
    return rows.empty() ? DONE : OPEN;
  }

  std::vector<Found> found;

 private:
  struct Row {  // an open hypothesis; the rows of a source stand together
    Size source;
    float score;
  };

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
    pack(output);
  }

  Progress one_step() {
    if (run_layers()) {
      return FAILED;
    }
    std::vector<std::pair<Size, Size>> groups;  // the rows of each open source: first and count
    for (Size row = 0; row < count(); ++row) {
      if (row && rows[row].source == rows[row - 1].source) {
        ++groups.back().second;
      } else {
        groups.emplace_back(row, 1);
      }
    }
    const Size vocabulary = output.outputs, most = p.greedy ? 1 : (1 + p.end_count) * p.beam;
    std::vector<std::vector<Extension>> best(groups.size());
    bool possible = true;
    const auto choose = [&](Size begin, Size end) {
      for (Size group = begin; group < end; ++group) {
        for (Size row = groups[group].first; row < groups[group].first + groups[group].second; ++row) {
          if (!extend(row, most, best[group])) {
            possible = false;
          }
        }
      }
    };
    if (in_parallel(parallel_for, groups.size(), p.beam * vocabulary, choose)) {
      return FAILED;
    }
    if (!possible) {
      return NO_TOKEN;
    }
    follow(best);
    return OPEN;
  }

  Size count() const { return static_cast<Size>(rows.size()); }

  std::int32_t run_layers() {
    const Size width = layers[0].width, texts = count(), hidden = layers[0].wide.outputs;
    states.resize(texts * width);
    scratch.resize(texts * (2 * width + hidden));
    for (Size text = 0; text < texts; ++text) {
      for (Size k = 0; k < width; k += LANES) {
        const Size some = std::min<Size>(LANES, width - k);
        store(&states[text * width + k],
              d.scale * load(d.embedding + last[text] * width + k, some) + load(d.positions + length * width + k, some),
              some);
      }
    }
    sources.resize(texts);
    for (Size text = 0; text < texts; ++text) {
      sources[text] = rows[text].source;
    }
    const Call call{states.data(), texts, 1, length, source_keys, nullptr, source_lengths, 1, scratch.data()};
    for (Size each = 0; each < d.count; ++each) {
      Memories memory = memories[each];
      memory.own.rows = stored.data();
      memory.own.text_step = p.longest;
      memory.own.place_step = 1;
      memory.own.known = length;
      memory.source.rows = sources.data();
      memory.source.text_step = 1;
      memory.source.place_step = 0;
      memory.source.known = source_keys;
      Pass pass(layers[each], memory, call, parallel_for);
      if (pass.own() || (layers[each].crossed && pass.crossed()) || pass.network()) {
        return 1;
      }
    }
    if (d.norm.weight) {
      normalise(d.norm, states.data(), texts, width, states.data());
    }
    logits.resize(texts * output.outputs);
    return apply(output, states.data(), texts, logits.data(), parallel_for);
  }

  // Merge the extensions of a row into the `most` best of its source. False if no token can follow.
  bool extend(Size row, Size most, std::vector<Extension>& best) {
    const Size vocabulary = output.outputs;
    Logits found(&logits[row * vocabulary], vocabulary);
    const float normaliser = found.normaliser();
    for (Size each = 0; each < p.closed_count; ++each) {
      found.replace(p.closed[each], -INFINITY);
    }
    for (Size token = vocabulary - p.unused; token < vocabulary; ++token) {
      found.replace(token, -INFINITY);
    }
    if (!std::isfinite(found.most() - normaliser)) {
      return false;
    }
    if (length + 1 < p.least) {
      forbid_ends(found);
    }
    merge(found, normaliser, rows[row].score, row, most, best);
    return true;
  }

  // The ends are forbidden where another token is possible.
  void forbid_ends(Logits& found) const {
    std::vector<float> before;
    for (Size each = 0; each < p.end_count; ++each) {
      before.push_back(found.replace(p.ends[each], -INFINITY));
    }
    const bool nothing = found.most() == -INFINITY;
    for (Size each = 0; nothing && each < p.end_count; ++each) {
      found.replace(p.ends[each], before[each]);
    }
  }

  bool is_end(Size token) const { return std::find(p.ends, p.ends + p.end_count, token) != p.ends + p.end_count; }

  double penalised(double score, Size tokens) const {
    return score / std::pow((p.offset + tokens) / (p.offset + 1), p.alpha);
  }

  void finish(const Extension& each, bool finished, Size tokens) {
    const Size source = rows[each.parent].source;
    const std::int64_t* text = written.data() + each.parent * p.longest;
    Found one{source, penalised(each.score, tokens), finished, {text, text + length}};
    if (!finished) {
      one.tokens.push_back(each.token);
    }
    ended[source].push_back(one.score);
    std::sort(ended[source].begin(), ended[source].end(), std::greater<>());
    found.push_back(std::move(one));
  }

  void follow(const std::vector<std::vector<Extension>>& best) {
    std::vector<Extension> going;
    for (const auto& extensions : best) {
      if (extensions.empty()) {
        continue;
      }
      const Size source = rows[extensions[0].parent].source;
      const bool last_step = length + 1 >= p.limits[source];
      std::vector<Extension> open;
      for (Size rank = 0; rank < static_cast<Size>(extensions.size()); ++rank) {
        const Extension& each = extensions[rank];
        if (is_end(each.token)) {
          if (rank < p.beam) {
            finish(each, true, length + 1);
          }
        } else if (static_cast<Size>(open.size()) < p.beam) {
          open.push_back(each);
        }
      }
      if (last_step) {
        const Size missing = p.beam - static_cast<Size>(ended[source].size());
        for (Size each = 0; each < std::min<Size>(missing, open.size()); ++each) {
          finish(open[each], false, length + 1);
        }
      } else if (!open.empty() && !settled(source, open[0].score)) {
        going.insert(going.end(), open.begin(), open.end());
      }
    }
    move_on(going);
  }

  bool settled(Size source, float best_open) const {
    const std::vector<double>& scores = ended[source];
    if (static_cast<Size>(scores.size()) < p.beam) {
      return false;
    }
    return p.early || penalised(best_open, length + 1) <= scores[p.beam - 1];
  }

  // The rows after their extensions. Keys and values stay where they are: `stored` has the row of each position.
  void move_on(const std::vector<Extension>& going) {
    std::vector<Row> next;
    std::vector<std::int64_t> texts(going.size() * p.longest), places(going.size() * p.longest);
    last.clear();
    for (Size row = 0; row < static_cast<Size>(going.size()); ++row) {
      const Extension& each = going[row];
      next.push_back({rows[each.parent].source, each.score});
      last.push_back(each.token);
      if (length) {
        std::copy_n(&written[each.parent * p.longest], length, &texts[row * p.longest]);
        std::copy_n(&stored[each.parent * p.longest], length, &places[row * p.longest]);
      }
      texts[row * p.longest + length] = each.token;
      places[row * p.longest + length] = each.parent;
    }
    rows = std::move(next);
    written = std::move(texts);
    stored = std::move(places);
    ++length;
  }

  const Decoder d;
  const Plan p;
  std::vector<Memories> memories;
  Size source_keys;
  const std::int64_t* source_lengths;
  ParallelFor parallel_for;
  std::vector<Layer> layers;
  Linear output;
  std::vector<std::vector<Vec>> panels;
  Size length = 0;
  std::vector<Row> rows;
  std::vector<std::int64_t> last, written, stored, sources;  // the last two tables are (row, longest)
  std::vector<float> states, scratch, logits;
  std::vector<std::vector<double>> ended;  // scores of each source, best first
};

}  // namespace
