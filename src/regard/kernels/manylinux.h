// What lets a library that a newer system builds load on glibc 2.28 and GCC 8's libstdc++, as the tag of wheels promises.

#pragma once

#include <cmath>
#include <new>

// The same function, by the name that it had before glibc 2.29.
#if defined(__GLIBC__) && defined(__x86_64__)
__asm__(".symver pow,pow@GLIBC_2.2.5");
#elif defined(__GLIBC__) && defined(__aarch64__)
__asm__(".symver pow,pow@GLIBC_2.17");
#endif

// Headers since GCC 11 call this function of a library as new as they are where an array's size overflows.
#if defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE >= 11
namespace std {
__attribute__((weak, visibility("hidden"), noreturn)) void __throw_bad_array_new_length() {
  throw bad_array_new_length();
}
}  // namespace std
#endif
