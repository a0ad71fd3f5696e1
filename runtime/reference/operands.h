#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "runtime/kernel.h"

namespace skirl::reference {

/// An operand as doubles: f64 is read in place, anything else is converted.
class Doubles {
 public:
  explicit Doubles(const TensorView& view) : size_(elems(view.shape)) {
    if (view.dtype == DType::F64) {
      data_ = view.as<double>();
      return;
    }
    converted_.resize(static_cast<std::size_t>(size_));
    for (std::int64_t i = 0; i < size_; ++i) converted_[static_cast<std::size_t>(i)] = load_element(view.dtype, view.data, i);
    data_ = converted_.data();
  }
  Doubles(const Doubles&) = delete;
  Doubles& operator=(const Doubles&) = delete;

  const double* data() const { return data_; }
  std::int64_t size() const { return size_; }
  double operator[](std::int64_t i) const { return data_[i]; }

 private:
  std::int64_t size_;
  const double* data_ = nullptr;
  std::vector<double> converted_;
};

/// A result that is computed in doubles, zero at the start, and rounded to the result's dtype when this object goes: f64 is written in place.
class DoubleResult {
 public:
  explicit DoubleResult(const TensorView& view) : view_(view), size_(elems(view.shape)) {
    if (view.dtype == DType::F64) {
      data_ = view.as<double>();
      for (std::int64_t i = 0; i < size_; ++i) data_[i] = 0;
      return;
    }
    computed_.resize(static_cast<std::size_t>(size_));
    data_ = computed_.data();
  }
  DoubleResult(const DoubleResult&) = delete;
  DoubleResult& operator=(const DoubleResult&) = delete;
  ~DoubleResult() {
    for (std::size_t i = 0; i < computed_.size(); ++i) store_element(view_.dtype, view_.data, static_cast<std::int64_t>(i), computed_[i]);
  }

  double* data() { return data_; }
  std::int64_t size() const { return size_; }
  double& operator[](std::int64_t i) { return data_[i]; }

 private:
  TensorView view_;
  std::int64_t size_;
  double* data_ = nullptr;
  std::vector<double> computed_;
};

template <class A>
const A& attrs_of(const KernelCall& call) {
  return std::get<A>(*call.attrs);
}

/// Length of the last dimension.
inline std::int64_t last_dim(const TensorView& view) { return view.shape.back(); }
/// Product of all dimensions but the last.
inline std::int64_t rows(const TensorView& view) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d + 1 < view.shape.size(); ++d) n *= view.shape[d];
  return n;
}

}  // namespace skirl::reference
