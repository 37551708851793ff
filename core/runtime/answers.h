// Answers: turns the summed leaves of a row into scores, probabilities and a label, rounding as the source model does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/forest_view.h"

namespace scurry {

class Answers {
 public:
  explicit Answers(const ForestView& forest, std::vector<std::int64_t> labels);

  std::size_t n_outputs() const { return n_outputs_; }
  std::size_t n_probabilities() const { return n_probabilities_; }
  // What sums are divided by: the number of trees that add to each sum if values are averaged, else 1.
  double divisor() const { return divisor_; }
  // Whether a row's answer is its one sum as it is.
  bool are_sums() const { return n_outputs_ == 1 && n_probabilities_ == 1 && link_ == Link::kIdentity && !divide_; }

  // `sums` holds a row's n_outputs() sums, `spacing` apart.
  template <class Real>
  void scores(const Real* sums, std::size_t spacing, double* out) const;
  template <class Real>
  void probabilities(const Real* sums, std::size_t spacing, double* out) const;
  // Whether the probabilities of two classes follow from one sum as it is.
  bool are_of_one_sum() const { return binary_score_ && !divide_; }
  // The same for n rows, if are_of_one_sum(). `out` is [row][2], and its second entries are the sums.
  template <class Real>
  void link_sums(double* out, std::size_t n) const;
  template <class Real>
  std::int64_t label(const Real* sums, std::size_t spacing) const;
  std::int64_t label_of_class(std::size_t k) const { return labels_[k]; }

 private:
  template <class Real>
  Real score(Real sum) const {
    return divide_ ? sum / static_cast<Real>(divisor_) : sum;
  }
  template <class Real>
  void link(const Real* sums, std::size_t spacing, double* out) const;
  template <class Real>
  std::optional<std::size_t> clear_leader(const Real* sums, std::size_t spacing) const;

  std::size_t n_outputs_;
  std::vector<std::int64_t> labels_;
  std::size_t n_probabilities_;
  Link link_;
  double scale_, decision_threshold_, divisor_ = 1.0;
  bool divide_, label_from_score_, binary_score_;
};

// The smallest score whose logistic probability, rounded as the source does, exceeds one half.
double logistic_threshold(double scale, bool float32);

}  // namespace scurry
