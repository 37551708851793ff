// Scores, probabilities and labels, computed in the precision and order of the source model.
#include "runtime/answers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace scurry {
namespace {

// In float32 as XGBoost computes it (the exponent is capped so that the denominator stays finite), in float64 as
// LightGBM does.
float logistic(float x) { return 1.0f / (1.0f + std::exp(std::min(-x, 88.7f))); }
double logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

template <class Real>
Real transform(Link link, Real x) {
  switch (link) {
    case Link::kLogistic:
    case Link::kLogisticEach: return logistic(x);
    case Link::kExp: return std::exp(x);
    case Link::kSignedSquare: return std::copysign(x * x, x);
    case Link::kLog1pExp: return std::log1p(std::exp(x));
    case Link::kStep: return x > 0 ? Real{1} : Real{0};
    default: return x;
  }
}

}  // namespace

Answers::Answers(const ForestView& forest, std::vector<std::int64_t> labels)
    : n_outputs_(forest.n_outputs()),
      labels_(std::move(labels)),
      n_probabilities_(std::max<std::size_t>(forest.n_classes, 1)),
      link_(forest.link),
      scale_(forest.link_scale),
      decision_threshold_(forest.decision_threshold),
      divide_(forest.aggregation != Aggregation::kSum),
      label_from_score_(forest.label_from_score),
      binary_score_(forest.n_classes == 2 && forest.n_outputs() == 1) {
  if (labels_.size() != n_probabilities_) throw std::invalid_argument("a label is needed for every class");
  if (divide_) {
    const std::size_t rounds = forest.tree_output[0] < 0 ? forest.n_trees() : forest.n_trees() / forest.n_outputs();
    divisor_ = static_cast<double>(rounds);
  }
}

template <class Real>
void Answers::scores(const Real* sums, std::size_t spacing, double* out) const {
  for (std::size_t k = 0; k < n_outputs(); ++k) out[k] = static_cast<double>(score(sums[k * spacing]));
}

template <class Real>
void Answers::link(const Real* sums, std::size_t spacing, double* out) const {
  const auto scaled = [&](std::size_t k) { return static_cast<Real>(scale_) * score(sums[k * spacing]); };
  if (link_ == Link::kSoftmax) {
    Real largest = scaled(0);
    for (std::size_t k = 1; k < n_outputs(); ++k) largest = std::max(largest, scaled(k));
    double total = 0;
    for (std::size_t k = 0; k < n_outputs(); ++k) {
      const Real e = std::exp(scaled(k) - largest);
      total += static_cast<double>(e);
      out[k] = static_cast<double>(e);
    }
    for (std::size_t k = 0; k < n_outputs(); ++k) {
      out[k] = static_cast<double>(static_cast<Real>(out[k]) / static_cast<Real>(total));
    }
    return;
  }
  for (std::size_t k = 0; k < n_outputs(); ++k) {
    out[k] = static_cast<double>(link_ == Link::kIdentity ? score(sums[k * spacing]) : transform(link_, scaled(k)));
  }
}

template <class Real>
void Answers::probabilities(const Real* sums, std::size_t spacing, double* out) const {
  if (!binary_score_) return link(sums, spacing, out);
  link(sums, spacing, out + 1);
  out[0] = static_cast<double>(Real{1} - static_cast<Real>(out[1]));
}

template <class Real>
void Answers::link_sums(double* out, std::size_t n) const {
  const auto scale = static_cast<Real>(scale_);
  for (; n > 0; --n, out += 2) {
    const auto sum = static_cast<Real>(out[1]);
    // The one link of nearly all models is not looked for again in each row.
    const Real p = link_ == Link::kLogistic ? logistic(scale * sum) : transform(link_, link_ == Link::kIdentity ? sum : scale * sum);
    out[0] = static_cast<double>(Real{1} - p);
    out[1] = static_cast<double>(p);
  }
}

// The class whose softmax is the largest without computing any, if it is far enough ahead: its exponential is 1, and
// those of the others round to less, as do their quotients. If it is infinite, none is close to it, not even itself.
template <class Real>
std::optional<std::size_t> Answers::clear_leader(const Real* sums, std::size_t spacing) const {
  constexpr Real kFarEnough = Real{1} / 1024;
  if (link_ != Link::kSoftmax) return std::nullopt;
  const auto scaled = [&](std::size_t k) { return static_cast<Real>(scale_) * score(sums[k * spacing]); };
  Real largest = scaled(0);
  for (std::size_t k = 1; k < n_outputs(); ++k) largest = std::max(largest, scaled(k));
  std::size_t leader = 0, n_close = 0;
  for (std::size_t k = 0; k < n_outputs(); ++k) {
    const bool is_close = largest - scaled(k) <= kFarEnough;
    n_close += is_close;
    leader = is_close ? k : leader;
  }
  return n_close == 1 ? std::optional(leader) : std::nullopt;
}

template <class Real>
std::int64_t Answers::label(const Real* sums, std::size_t spacing) const {
  if (binary_score_) return labels_[static_cast<double>(score(sums[0])) >= decision_threshold_ ? 1 : 0];
  std::size_t best = 0;
  if (label_from_score_ || link_ == Link::kIdentity) {
    for (std::size_t k = 1; k < n_outputs(); ++k) {
      if (sums[k * spacing] > sums[best * spacing]) best = k;
    }
    // Two different sums can have the same quotient. The source takes the first class with the largest quotient, so an
    // earlier class that is close enough to be equal after the division wins.
    const Real close =
        sums[best * spacing] - 4 * std::numeric_limits<Real>::epsilon() * std::fabs(sums[best * spacing]);
    for (std::size_t k = 0; divide_ && k < best; ++k) {
      if (sums[k * spacing] >= close && score(sums[k * spacing]) == score(sums[best * spacing])) best = k;
    }
    return labels_[best];
  }
  if (const auto leader = clear_leader(sums, spacing)) return labels_[*leader];
  constexpr std::size_t kOnStack = 128;  // classes: labels of single rows should not allocate
  double on_stack[kOnStack];
  std::vector<double> on_heap(n_outputs() > kOnStack ? n_outputs() : 0);
  double* p = on_heap.empty() ? on_stack : on_heap.data();
  link(sums, spacing, p);
  return labels_[static_cast<std::size_t>(std::max_element(p, p + n_outputs()) - p)];
}

template void Answers::scores(const float*, std::size_t, double*) const;
template void Answers::scores(const double*, std::size_t, double*) const;
template void Answers::probabilities(const float*, std::size_t, double*) const;
template void Answers::probabilities(const double*, std::size_t, double*) const;
template void Answers::link_sums<float>(double*, std::size_t) const;
template void Answers::link_sums<double>(double*, std::size_t) const;
template std::int64_t Answers::label(const float*, std::size_t) const;
template std::int64_t Answers::label(const double*, std::size_t) const;

double logistic_threshold(double scale, bool float32) {
  // Positive floats are ordered like their bits, so this bisects the bits. `low` always gives the negative class,
  // `high` the positive one.
  if (float32) {
    std::uint32_t low = 0, high = std::bit_cast<std::uint32_t>(1.0f);
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      (logistic(static_cast<float>(scale) * std::bit_cast<float>(middle)) > 0.5f ? high : low) = middle;
    }
    return static_cast<double>(std::bit_cast<float>(high));
  }
  std::uint64_t low = 0, high = std::bit_cast<std::uint64_t>(1.0);
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (logistic(scale * std::bit_cast<double>(middle)) > 0.5 ? high : low) = middle;
  }
  return std::bit_cast<double>(high);
}

}  // namespace scurry
