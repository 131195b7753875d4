// What Python calls: a linear map, a Transformer's layers one after the other, and searches by a decoder.

#include "layer.h"
#include "recurrent_steps.h"
#include "search.h"
#include "transformer_steps.h"

extern "C" {

// Map rows `(rows, inputs)` to outputs `(rows, outputs)`. Both functions return 0 on success.
std::int32_t layer_linear(const Linear* linear, const float* x, Size rows, float* to, ParallelFor parallel_for) {
  return apply(*linear, x, rows, to, parallel_for);
}

// Run `count` layers, one after the other.
std::int32_t layer_pass(const Layer* layers, const Memories* memories, Size count, const Call* call,
                        ParallelFor parallel_for) {
  for (Size each = 0; each < count; ++each) {
    Pass pass(layers[each], memories[each], *call, parallel_for);
    if (pass.own() || (layers[each].crossed && pass.crossed()) || pass.network()) {
      return 1;
    }
  }
  return 0;
}

// The steps of a decoder, for a search of `texts` hypotheses at most; the arguments must stay where they are until its
// end.
Steps* transformer_steps(const Decoder* decoder, const Memories* memories, Size source_keys,
                        const std::int64_t* source_lengths, Size texts, Size longest, ParallelFor parallel_for) {
  return new TransformerSteps(*decoder, memories, source_keys, source_lengths, texts, longest, parallel_for);
}

Steps* recurrent_steps(const Program* program, Size texts, ParallelFor parallel_for) {
  return new RecurrentSteps(*program, texts, parallel_for);
}

// Start a search, whose arguments must stay where they are until its end, and which ends its steps with itself.
void* search_start(Steps* steps, const Plan* plan, ParallelFor parallel_for) {
  return new Search(std::unique_ptr<Steps>(steps), *plan, parallel_for);
}

// Search for at most so many steps -> a `Progress`.
std::int32_t search_advance(void* search, Size steps) { return static_cast<Search*>(search)->advance(steps); }

// The number of hypotheses found so far, and of all their tokens.
void search_count(const void* search, Size* hypotheses, Size* tokens) {
  const auto& found = static_cast<const Search*>(search)->found;
  *hypotheses = found.size();
  *tokens = 0;
  for (const Found& each : found) {
    *tokens += each.tokens.size();
  }
}

// Copy the hypotheses in the order in which they were found: source, number of tokens and whether each has ended
// `(hypothesis, 3)`, scores `(hypothesis,)`, and the tokens of one after the other.
void search_found(const void* search, std::int64_t* about, double* scores, std::int64_t* tokens) {
  for (const Found& each : static_cast<const Search*>(search)->found) {
    *about++ = each.source;
    *about++ = each.tokens.size();
    *about++ = each.finished;
    *scores++ = each.score;
    tokens = std::copy(each.tokens.begin(), each.tokens.end(), tokens);
  }
}

void search_end(void* search) { delete static_cast<Search*>(search); }

}  // extern "C"
