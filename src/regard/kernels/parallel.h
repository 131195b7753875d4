// Parallel work on PyTorch's own threads, through its stable interface, without a second pool.

#pragma once

#include <algorithm>
#include <cstdint>

namespace {

using ParallelFor = std::int32_t (*)(std::int64_t begin, std::int64_t end, std::int64_t grain,
                                     void (*)(std::int64_t, std::int64_t, void*), void*);

// `size` is the work of a unit; a thread gets at least `WORTH` work.
template <class Work>
std::int32_t in_parallel(ParallelFor parallel_for, std::int64_t units, std::int64_t size, const Work& work) {
  constexpr std::int64_t WORTH = 65536;
  return parallel_for(
      0, units, std::max<std::int64_t>(1, WORTH / std::max<std::int64_t>(1, size)),
      [](std::int64_t begin, std::int64_t end, void* context) { (*static_cast<const Work*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&work)));
}

}  // namespace
