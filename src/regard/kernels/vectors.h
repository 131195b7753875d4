// Vectors of float32 of the machine's length, loads and stores of float32 and bfloat16, and exponentials.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>
#ifdef __AVX__
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef std::int32_t Whole __attribute__((vector_size(4 * LANES)));
typedef std::uint16_t Short __attribute__((vector_size(2 * LANES)));
using Size = std::int64_t;

Size parts(Size size, Size part) { return (size + part - 1) / part; }

struct Stored {  // a vector at any address
  float numbers[LANES];
  Stored(Vec vector) { std::memcpy(numbers, &vector, sizeof numbers); }
  operator Vec() const {
    Vec vector;
    std::memcpy(&vector, numbers, sizeof numbers);
    return vector;
  }
};

struct Half {  // bfloat16
  std::uint16_t bits;
};

Vec all(float number) { return number - Vec{}; }

float widened(float number) { return number; }
float widened(Half number) {
  const std::uint32_t bits = std::uint32_t{number.bits} << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}

void put(float* place, float number) { *place = number; }
void put(Half* place, float number) {
  std::uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  const bool nan = number != number;
  place->bits = static_cast<std::uint16_t>(nan ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Load at most `count` numbers, and set the other lanes to zero.
template <class Lanes, class Number>
inline Lanes take(const Number* from, Size count) {
  Lanes lanes{};
  if (count >= LANES) {
    std::memcpy(&lanes, from, sizeof lanes);
  } else {
    std::memcpy(&lanes, from, count * sizeof(Number));
  }
  return lanes;
}
Vec load(const float* from, Size count) { return take<Vec>(from, count); }
Vec load(const Half* from, Size count) {
  Short bits{};
  std::memcpy(&bits, from, std::min<Size>(count, LANES) * sizeof(Half));
  return reinterpret_cast<Vec>(__builtin_convertvector(bits, Whole) << 16);
}

// Store the first `count` lanes.
void store(float* to, Vec numbers, Size count) {
  if (count == LANES) {
    std::memcpy(to, &numbers, sizeof numbers);
  } else {
    std::memcpy(to, &numbers, count * sizeof(float));
  }
}
void store(Half* to, Vec numbers, Size count) {
  const Whole bits = reinterpret_cast<Whole>(numbers), rounded = bits + 0x7fff + (bits >> 16 & 1);
  const Short halves = __builtin_convertvector((numbers == numbers ? rounded : bits | 0x400000) >> 16 & 0xffff, Short);
  std::memcpy(to, &halves, count * sizeof(Half));
}

// Keep the first `count` lanes and set the others to zero.
Vec kept(Vec numbers, Size count) { return load(reinterpret_cast<const float*>(&numbers), count); }

// Comparisons are written so that NaN passes.
Vec cut(Vec x, float most) {
  x = x > all(most) ? all(most) : x;
  return x < all(-most) ? all(-most) : x;
}

Vec absolute(Vec x) { return reinterpret_cast<Vec>(reinterpret_cast<Whole>(x) & 0x7fffffff); }

struct Exponentials {
  Vec whole, less_one;  // e^2x and e^2x - 1; for small x only the second is exact, for small e^2x only the first
};

inline Exponentials exponentials(Vec x) {
  constexpr float ROUNDING = 12582912.0f;  // 1.5 * 2^23: a number added to it loses its fraction
  const Vec doubled = x + x;
  const Vec count = (doubled * 1.44269504f + ROUNDING) - ROUNDING;
  const Vec rest = (doubled - count * 0.693145751953125f) - count * 1.42860677e-6f;  // ln 2 in two parts
  Vec series = rest * (1.0f / 5040) + 1.0f / 720;
  series = series * rest + 1.0f / 120;
  series = series * rest + 1.0f / 24;
  series = series * rest + 1.0f / 6;
  series = series * rest + 0.5f;
  series = rest * rest * series + rest;
  const Vec scale = reinterpret_cast<Vec>((__builtin_convertvector(count, Whole) + 127) << 23);
  return {series * scale + scale, series * scale + (scale - 1.0f)};
}

Vec exponential(Vec x) { return exponentials(cut(x * 0.5f, 43.0f)).whole; }

// 1 / x at full precision, or for bfloat16 to 14 bits: a guess and a step of Newton are faster than a division.
template <bool EXACT>
inline Vec inverse(Vec x) {
#if defined(__AVX512F__)
  const Vec guess = _mm512_rcp14_ps(x);
  return EXACT ? guess + guess * (1.0f - x * guess) : guess;
#elif defined(__AVX__)
  const Vec guess = _mm256_rcp_ps(x);  // 12 bits
  return guess + guess * (1.0f - x * guess);
#else
  return 1.0f / x;
#endif
}

// Store rows, `row` apart, times a factor; prefetch the neighbouring rows of the next unit of work.
template <class Number>
void put_rows(Number* to, const std::vector<Vec>& rows, Vec factor, Size row, Size count) {
  for (const Vec& each : rows) {
    __builtin_prefetch(to + LANES, 1);
    store(to, factor * each, count);
    to += row;
  }
}

float total(Vec numbers) {
#ifdef __AVX512F__
  return _mm512_reduce_add_ps(numbers);
#else
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) {
      numbers[lane] += numbers[lane + half];
    }
  }
  return numbers[0];
#endif
}

// Whether all numbers of rows, `row` apart, are within +-most; false for NaN.
template <class Number>
bool within(float most, const Number* rows, Size count, Size width, Size row) {
  Whole inside = ~Whole{};
  for (Size each = 0; each < count; ++each) {
    for (Size first = 0; first < width; first += LANES) {
      const Vec x = load(rows + each * row + first, width - first);
      inside &= (x <= all(most)) & (x >= all(-most));
    }
  }
  bool all_inside = true;
  for (int lane = 0; lane < LANES; ++lane) {
    all_inside = all_inside && inside[lane];
  }
  return all_inside;
}

}  // namespace
