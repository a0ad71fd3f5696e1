#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

#include "runtime/kernel.h"

/// What the kernels share: operands and results as the type they compute in, and memory for the time of a call.
namespace skirl::cpu {

template <class A>
const A& attrs_of(const KernelCall& call) {
  return std::get<A>(*call.attrs);
}

inline std::int64_t elems(const TensorView& view) { return skirl::elems(view.shape); }
/// Length of the last dimension.
inline std::int64_t last_dim(const TensorView& view) { return view.shape.back(); }
/// Product of all dimensions but the last.
inline std::int64_t rows(const TensorView& view) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d + 1 < view.shape.size(); ++d) n *= view.shape[d];
  return n;
}
inline double scalar(const TensorView& view) { return load_element(view.dtype, view.data, 0); }

/// Memory for the time of a call. It comes from a pool of the thread, so that steps after the first touch no new pages.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t size) : block_(take(static_cast<std::size_t>(size) * sizeof(T))) {}
  ~Scratch() { give_back(std::move(block_)); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() { return reinterpret_cast<T*>(block_.memory.get()); }
  T& operator[](std::int64_t i) { return data()[i]; }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size_bytes = 0;
  };
  static std::vector<Block>& pool() {
    static thread_local std::vector<Block> blocks;
    return blocks;
  }
  /// The smallest free block that is large enough.
  static Block take(std::size_t size_bytes) {
    if (size_bytes == 0) return {};
    std::vector<Block>& blocks = pool();
    std::size_t best = blocks.size();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (blocks[i].size_bytes >= size_bytes && (best == blocks.size() || blocks[i].size_bytes < blocks[best].size_bytes)) best = i;
    if (best == blocks.size()) {
      const std::size_t rounded = (size_bytes + 4095) / 4096 * 4096 + 4096;
      return {std::unique_ptr<std::byte[]>(new std::byte[rounded]), rounded};
    }
    std::swap(blocks[best], blocks.back());
    Block block = std::move(blocks.back());
    blocks.pop_back();
    return block;
  }
  static void give_back(Block block) {
    if (block.memory) pool().push_back(std::move(block));
  }

  Block block_;
};

/// Converts `size` elements of raw memory to floats (doubles), and back with rounding to nearest even.
void load(DType dtype, const void* from, std::int64_t size, float* to);
void load(DType dtype, const void* from, std::int64_t size, double* to);
void store(const float* from, std::int64_t size, DType dtype, void* to);
void store(const double* from, std::int64_t size, DType dtype, void* to);

template <class T>
inline constexpr DType kDTypeOf = std::is_same_v<T, double> ? DType::F64 : DType::F32;

/// A float operand as T: read in place where it is stored so, else converted.
template <class T>
class In {
 public:
  explicit In(const TensorView& view) : In(view, elems(view)) {}
  const T* data() const { return data_; }
  std::int64_t size() const { return size_; }
  T operator[](std::int64_t i) const { return data_[i]; }

 private:
  In(const TensorView& view, std::int64_t size)
      : size_(size), converted_(view.dtype == kDTypeOf<T> ? 0 : size), data_(view.dtype == kDTypeOf<T> ? view.as<T>() : converted_.data()) {
    if (view.dtype != kDTypeOf<T>) load(view.dtype, view.data, size_, converted_.data());
  }

  std::int64_t size_;
  Scratch<T> converted_;
  const T* data_;
};

/// A float result that is computed as T, and rounded to its dtype when this object goes.
template <class T>
class Out {
 public:
  explicit Out(const TensorView& view) : Out(view, elems(view)) {}
  ~Out() {
    if (view_.dtype != kDTypeOf<T>) store(data_, size_, view_.dtype, view_.data);
  }
  T* data() { return data_; }
  std::int64_t size() const { return size_; }
  T& operator[](std::int64_t i) { return data_[i]; }

 private:
  Out(const TensorView& view, std::int64_t size)
      : view_(view),
        size_(size),
        computed_(view.dtype == kDTypeOf<T> ? 0 : size),
        data_(view.dtype == kDTypeOf<T> ? view.as<T>() : computed_.data()) {}

  const TensorView& view_;
  std::int64_t size_;
  Scratch<T> computed_;
  T* data_;
};

/// Calls f.operator()<T>() with the type to compute in: double where an operand is f64, else float.
template <class F>
void with_compute_type(std::span<const TensorView> operands, F&& f) {
  for (const TensorView& view : operands)
    if (view.dtype == DType::F64) return f.template operator()<double>();
  f.template operator()<float>();
}

/// An index operand (i32 or i64).
class Indices {
 public:
  explicit Indices(const TensorView& view) : view_(view) {}
  std::int64_t operator[](std::int64_t i) const {
    return view_.dtype == DType::I64   ? view_.as<std::int64_t>()[i]
           : view_.dtype == DType::I32 ? view_.as<std::int32_t>()[i]
                                       : static_cast<std::int64_t>(load_element(view_.dtype, view_.data, i));
  }
  std::int64_t size() const { return elems(view_); }

 private:
  const TensorView& view_;
};

}  // namespace skirl::cpu
