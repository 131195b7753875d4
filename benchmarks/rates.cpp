// Vector operations that nothing but their own units limits: independent, and all in registers.

#include "../src/regard/kernels/vectors.h"

namespace {

constexpr int CHAINS = 12;  // more than the latency of an operation times those that begin in a cycle

// Numbers that are changed one after the other, in registers: GCC keeps an array in memory.
template <int COUNT>
struct Chains {
  Vec number = all(1.5f + COUNT);
  Chains<COUNT - 1> others;

  template <class Operation>
  [[gnu::always_inline]] void apply(const Operation& operation) {
    number = operation(number);
    asm volatile("" : "+x"(number));
    others.apply(operation);
  }
  [[gnu::always_inline]] Vec sum() const { return number + others.sum(); }
};

template <>
struct Chains<0> {
  template <class Operation>
  void apply(const Operation&) {}
  Vec sum() const { return Vec{}; }
};

template <class Operation>
float repeat(Size times, const Operation& operation) {
  Chains<CHAINS> chains;
  for (Size time = 0; time < times; ++time) chains.apply(operation);
  return total(chains.sum());
}

}  // namespace

extern "C" {

int lanes() { return LANES; }
int chains() { return CHAINS; }
float multiply_add(Size times) {
  const Vec factor = all(0.99f), more = all(0.01f);
  return repeat(times, [&](Vec x) { return x * factor + more; });
}
float inverses(Size times) {
  return repeat(times, [](Vec x) { return inverse<true>(x); });
}

}  // extern "C"
