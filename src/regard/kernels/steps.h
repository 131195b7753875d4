// What a search asks of a decoder.

#pragma once

#include "linear.h"

namespace {

// The open hypotheses of a search, whose texts all have `length` tokens; those of a source stand together.
struct Hypotheses {
  Size count, length;
  const std::int64_t *last, *sources;  // the last token and the source of each
  const std::int64_t* parents;         // the hypothesis of the step before that each extends; at first its source
};

class Steps {
 public:
  virtual ~Steps() = default;
  // The map of features to logits.
  virtual const Linear& output() const = 0;
  // Features (hypothesis, width) of the next tokens; none if it fails.
  virtual const float* run(const Hypotheses& now) = 0;
};

}  // namespace
