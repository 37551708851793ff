// Vectors whose memory is more than a vector's: AlignedVector starts on a cache line, as the vector loads of the kernels
// require; LargeVector is made for millions of nodes that are written once.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace scurry {

template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64})); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t{64}); }
  bool operator==(const AlignedAllocator&) const { return true; }
};

template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

constexpr std::size_t kHugePage = std::size_t{1} << 21;

// Memory of at least kHugePage. The system is asked for huge pages, where it has them: to get a page takes much longer
// than to write it, whatever its size, and walks find the way to their nodes sooner.
void* allocate_large(std::size_t n_bytes);
void free_large(void* memory);

// Elements that resize() appends are anything until they are written.
template <class T>
struct LargeAllocator {
  using value_type = T;
  LargeAllocator() = default;
  template <class U>
  LargeAllocator(const LargeAllocator<U>&) {}
  static bool is_large(std::size_t n) { return n >= kHugePage / sizeof(T); }
  T* allocate(std::size_t n) {
    return static_cast<T*>(is_large(n) ? allocate_large(n * sizeof(T)) : ::operator new(n * sizeof(T)));
  }
  void deallocate(T* p, std::size_t n) { is_large(n) ? free_large(p) : ::operator delete(p); }
  template <class U>
  void construct(U* place) {
    ::new (static_cast<void*>(place)) U;
  }
  template <class U, class... Arguments>
  void construct(U* place, Arguments&&... arguments) {
    ::new (static_cast<void*>(place)) U{std::forward<Arguments>(arguments)...};
  }
  bool operator==(const LargeAllocator&) const { return true; }
};

template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace scurry
