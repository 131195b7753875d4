// Memory for PyTorch's tensors on a CPU, kept when a tensor is freed, for the next of about its size.
//
// A training step makes and frees some thousands of tensors of a few hundred sizes. malloc either hands each large block
// back to the kernel, which must clear it page by page when it is wanted again, or keeps it in one sorted list of all
// large blocks, which is searched from its end. Here blocks come in sizes of eight to a doubling, with a list of free
// ones for each.

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <mutex>

namespace {

constexpr std::size_t SMALLEST = 4096;  // bytes; smaller blocks are left to malloc
constexpr int STEPS = 8;                // sizes to a doubling
constexpr int UNSIZED = -1;

// Stands before every block, and keeps it at the alignment of PyTorch's own.
struct alignas(64) Header {
  int size_class;
  Header* next;
};
static_assert(sizeof(Header) == 64);

// The first of the sizes that holds so many bytes.
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
    // A block up to twice as large serves as well, so that what is kept stays near to what is needed at once.
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
    } catch (const c10::Error&) {  // no memory left but what is kept
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

  // Hands all that is kept back to malloc.
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
  std::size_t used_ = 0, kept_ = 0, peak_ = 0;  // bytes: lent, free, and the most that was ever lent
};

}  // namespace

extern "C" {

// Has every tensor made from now on in this process take its memory here.
void keep_freed_memory() { c10::SetCPUAllocator(&Keeping::instance(), /*priority=*/1); }

// The bytes of freed tensors that are kept.
std::size_t kept_memory() { return Keeping::instance().kept(); }

}  // extern "C"
