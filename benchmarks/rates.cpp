// Vector operations that nothing but their own units limits: independent, and all in registers.

#include "../src/regard/kernels/vectors.h"

namespace {

constexpr int CHAINS = 12;  // more than the latency of an operation times those that begin in a cycle

template <class Operation>
float repeat(Size times, const Operation& operation) {
  Vec chains[CHAINS];
  for (int chain = 0; chain < CHAINS; ++chain) chains[chain] = all(1.5f + chain);
  for (Size time = 0; time < times; ++time) {
#pragma GCC unroll 12
    for (int chain = 0; chain < CHAINS; ++chain) {
      chains[chain] = operation(chains[chain]);
      asm volatile("" : "+x"(chains[chain]));
    }
  }
  float sum = 0;
  for (int chain = 0; chain < CHAINS; ++chain) sum += total(chains[chain]);
  return sum;
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
