// A caching allocator for PyTorch's CPU tensors: the memory of a freed tensor serves the next of about its size.
//
// A training step allocates and frees some thousands of tensors of a few hundred sizes. malloc either returns each
// large block to the kernel, which must clear it page by page at the next allocation, or keeps it in one sorted list of
// all large blocks, which it searches from the end. Here blocks have eight sizes per doubling and one free list each.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <mutex>

namespace {

constexpr std::size_t SMALLEST = 4096;  // bytes; malloc serves smaller blocks
constexpr int STEPS = 8;                // sizes per doubling
constexpr int UNSIZED = -1;

// Precedes every block; its size preserves PyTorch's alignment.
struct alignas(64) Header {
  int size_class;
  Header* next;
};
static_assert(sizeof(Header) == 64);

// The smallest size that holds `bytes`.
int class_of(std::size_t bytes) {
  const int exponent = std::bit_width(bytes) - 1;
  const std::size_t step = std::size_t{1} << (exponent - 3);
  return exponent * STEPS + static_cast<int>((bytes + step - 1) / step) - STEPS;
}

std::size_t bytes_of(int size_class) {
  const int exponent = size_class / STEPS;
  return static_cast<std::size_t>(STEPS + size_class % STEPS) << (exponent - 3);
}

class Keeping final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = bytes == 0 ? nullptr : take(bytes + sizeof(Header)) + 1;
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  std::size_t kept() {
    const std::lock_guard<std::mutex> guard(mutex_);
    return kept_;
  }

  static Keeping& instance() {
    static Keeping* const only = new Keeping;  // never destroyed: tensors may be freed while the process ends
    return *only;
  }

 private:
  Header* take(std::size_t bytes) {
    if (bytes < SMALLEST) {
      return fresh(bytes, UNSIZED);
    }
    const int wanted = class_of(bytes);
    const std::lock_guard<std::mutex> guard(mutex_);
    // A block up to twice as large also serves, so that the cache stays near the memory needed at one time.
    for (int each = wanted; each < wanted + STEPS; ++each) {
      if (Header* found = free_[each]; found != nullptr) {
        free_[each] = found->next;
        kept_ -= bytes_of(each);
        return lend(found);
      }
    }
    const std::size_t size = bytes_of(wanted);
    if (used_ + kept_ + size > 2 * std::max(peak_, size)) {
      release();
    }
    try {
      return lend(fresh(size, wanted));
    } catch (const c10::Error&) {  // out of memory: release the cache
      release();
      return lend(fresh(size, wanted));
    }
  }

  Header* lend(Header* block) {
    used_ += bytes_of(block->size_class);
    peak_ = std::max(peak_, used_);
    return block;
  }

  Header* fresh(std::size_t bytes, int size_class) {
    return new (c10::alloc_cpu(bytes)) Header{size_class, nullptr};
  }

  static void give_back(void* data) {
    if (data == nullptr) {
      return;
    }
    Header* block = static_cast<Header*>(data) - 1;
    if (block->size_class == UNSIZED) {
      c10::free_cpu(block);
    } else {
      instance().keep(block);
    }
  }

  void keep(Header* block) {
    const std::size_t size = bytes_of(block->size_class);
    const std::lock_guard<std::mutex> guard(mutex_);
    block->next = free_[block->size_class];
    free_[block->size_class] = block;
    used_ -= size;
    kept_ += size;
  }

  // Return all cached blocks to malloc.
  void release() {
    for (Header*& first : free_) {
      while (first != nullptr) {
        Header* next = first->next;
        c10::free_cpu(first);
        first = next;
      }
    }
    kept_ = 0;
  }

  std::mutex mutex_;
  std::array<Header*, 65 * STEPS> free_{};
  std::size_t used_ = 0, kept_ = 0, peak_ = 0;  // bytes: in use, cached, and the peak in use
};

}  // namespace

extern "C" {

// Make this the allocator of all tensors created from now on in this process.
void keep_freed_memory() { c10::SetCPUAllocator(&Keeping::instance(), /*priority=*/1); }

// Bytes of freed tensors in the cache.
std::size_t kept_memory() { return Keeping::instance().kept(); }

}  // extern "C"
