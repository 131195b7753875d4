// Greedy and beam search, many steps in one call, by any decoder that computes logits in `Steps`.

#pragma once

#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "choice.h"
#include "manylinux.h"
#include "steps.h"

namespace {

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
  Search(std::unique_ptr<Steps> steps, const Plan& plan, ParallelFor parallel_for)
      : steps(std::move(steps)), p(plan), parallel_for(parallel_for), scores(plan.sources), last(plan.sources, p.start),
        sources(plan.sources), written(plan.sources * plan.longest), ended(plan.sources) {
    std::iota(sources.begin(), sources.end(), 0);
    parents = sources;
  }

  Progress advance(Size most) {
    for (Size step = 0; step < most && count(); ++step) {
      const Progress progress = one_step();
      if (progress != OPEN) {
        return progress;
      }
    }
    return count() ? OPEN : DONE;
  }

  std::vector<Found> found;

 private:
  // What the choice of a row's next token needs of some of its logits.
  struct Row {
    std::vector<Candidate> best;
    std::vector<Candidate> ends;  // forbidden where another token is possible
  };

  Progress one_step() {
    const float* features = steps->run({count(), length, last.data(), sources.data(), parents.data()});
    if (!features || read_logits(features)) {
      return FAILED;
    }
    std::vector<std::vector<Extension>> best;  // of each open source
    for (Size row = 0; row < count(); ++row) {
      if (!row || sources[row] != sources[row - 1]) {
        best.emplace_back();
      }
      if (!extend(row, best.back())) {
        return NO_TOKEN;
      }
    }
    follow(best);
    return OPEN;
  }

  Size count() const { return static_cast<Size>(last.size()); }

  Size most() const { return p.greedy ? 1 : (1 + p.end_count) * p.beam; }

  // Compute the logits block by block, and keep of each row what its choice needs. A thread has several blocks, so that
  // few tokens are candidates; what it keeps is at the number of its first.
  std::int32_t read_logits(const float* features) {
    const Linear& output = steps->output();
    const Inputs inputs(output, features, count());
    constexpr Size PANELS = BLOCK / (2 * LANES);
    const Size blocks = parts(output.outputs, BLOCK);
    sums.resize(blocks * count());
    kept_rows.assign(blocks, {});
    return in_parallel(parallel_for, blocks, BLOCK * output.inputs * count(), [&](Size begin, Size end) {
      std::vector<float> numbers(count() * BLOCK);
      std::vector<Row> rows(count());
      for (Size block = begin; block < end; ++block) {
        const Size first = block * BLOCK, some = std::min(BLOCK, output.outputs - first);
        inputs.multiply_panels(block * PANELS, std::min((block + 1) * PANELS, inputs.panels()),
                               [&](Size row, Size at, Vec logits, Size number) {
                                 store(&numbers[row * BLOCK + at - first], logits, number);
                               });
        for (Size row = 0; row < count(); ++row) {
          Logits logits(&numbers[row * BLOCK], first, some);
          sums[block * count() + row] = logits.exponents();
          forbid(logits, rows[row]);
          logits.keep_best(most(), rows[row].best);
        }
      }
      kept_rows[begin] = std::move(rows);
    });
  }

  void forbid(Logits& logits, Row& row) const {
    for (Size each = 0; each < p.closed_count; ++each) {
      if (logits.has(p.closed[each])) {
        logits.replace(p.closed[each], -INFINITY);
      }
    }
    const Size vocabulary = steps->output().outputs;
    for (Size token = vocabulary - p.unused; token < vocabulary; ++token) {
      if (logits.has(token)) {
        logits.replace(token, -INFINITY);
      }
    }
    for (Size each = 0; length + 1 < p.least && each < p.end_count; ++each) {
      if (logits.has(p.ends[each])) {
        row.ends.push_back({logits.replace(p.ends[each], -INFINITY), p.ends[each]});
      }
    }
  }

  // Merge the extensions of a row into the best of its source. False if no token can follow.
  bool extend(Size row, std::vector<Extension>& best) const {
    std::vector<Candidate> tokens, ends;
    for (const std::vector<Row>& rows : kept_rows) {
      for (Size each = 0; !rows.empty() && each < static_cast<Size>(rows[row].best.size()); ++each) {
        tokens.push_back(rows[row].best[each]);
      }
      if (!rows.empty()) {
        ends.insert(ends.end(), rows[row].ends.begin(), rows[row].ends.end());
      }
    }
    if (tokens.empty()) {
      tokens = ends;
    }
    const auto higher = [](const Candidate& left, const Candidate& right) { return left.logit > right.logit; };
    std::stable_sort(tokens.begin(), tokens.end(), higher);
    const float normal = normaliser(sums.data() + row, parts(steps->output().outputs, BLOCK), count());
    if (tokens.empty() || !std::isfinite(tokens[0].logit - normal)) {
      return false;
    }
    for (const Candidate& each : tokens) {
      const float score = scores[row] + (each.logit - normal);
      if (static_cast<Size>(best.size()) == most()) {
        if (score <= best.back().score) {
          break;
        }
        best.pop_back();
      }
      const auto after = std::upper_bound(best.begin(), best.end(), score,
                                          [](float left, const Extension& right) { return left > right.score; });
      best.insert(after, {score, row, each.token});
    }
    return true;
  }

  bool is_end(Size token) const { return std::find(p.ends, p.ends + p.end_count, token) != p.ends + p.end_count; }

  double penalised(double score, Size tokens) const {
    return score / std::pow((p.offset + tokens) / (p.offset + 1), p.alpha);
  }

  void finish(const Extension& each, bool finished, Size tokens) {
    const Size source = sources[each.parent];
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
      const Size source = sources[extensions[0].parent];
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
    const std::vector<double>& best = ended[source];
    if (static_cast<Size>(best.size()) < p.beam) {
      return false;
    }
    return p.early || penalised(best_open, length + 1) <= best[p.beam - 1];
  }

  // The rows after their extensions.
  void move_on(const std::vector<Extension>& going) {
    std::vector<std::int64_t> texts(going.size() * p.longest), origins;
    scores.clear();
    last.clear();
    parents.clear();
    for (const Extension& each : going) {
      std::copy_n(written.data() + each.parent * p.longest, length, texts.data() + last.size() * p.longest);
      texts[last.size() * p.longest + length] = each.token;
      origins.push_back(sources[each.parent]);
      scores.push_back(each.score);
      last.push_back(each.token);
      parents.push_back(each.parent);
    }
    sources = std::move(origins);
    written = std::move(texts);
    ++length;
  }

  const std::unique_ptr<Steps> steps;
  const Plan p;
  ParallelFor parallel_for;
  Size length = 0;
  // Of each open hypothesis; those of a source stand together. `written` is (hypothesis, longest).
  std::vector<float> scores;
  std::vector<std::int64_t> last, sources, parents, written;
  std::vector<Exponents> sums;  // (block, hypothesis)
  std::vector<std::vector<Row>> kept_rows;
  std::vector<std::vector<double>> ended;  // scores of each source, best first
};

}  // namespace
