// One bet after the other, epoch by epoch.
#include "calibrate/bets.h"

#include <algorithm>
#include <cmath>

namespace scurry {
namespace {

// Far above every limit that is tested, and still finite: infinity times a capital that vanishes would be no number.
constexpr double kMost = 1e300;

}  // namespace

void follow_bets(const BetEpochs& epochs, double first_capital, const BetState& state, std::span<double> e_values,
                 std::span<double> changes) {
  const double n_bets = static_cast<double>(epochs.n_bets());
  for (std::size_t bet = 0; bet < epochs.n_bets(); ++bet) {
    const double* gains = epochs.log_gains.data() + bet * epochs.n_losses;
    double log_capital = state.log_capital[bet], begun = state.begun[bet];
    for (std::size_t epoch = 0; epoch < epochs.n_epochs(); ++epoch) {
      state.log_capital[bet] = log_capital;
      state.begun[bet] = begun;
      double gain = 0.0;
      for (std::size_t loss = 0; loss < epochs.n_losses; ++loss) {
        // A bet that wins without limit, times no row, is nothing.
        const std::int64_t count = epochs.counts[epoch * epochs.n_losses + loss];
        if (count > 0) gain += static_cast<double>(count) * gains[loss];
      }
      if (std::isfinite(epochs.started[epoch])) begun += first_capital;
      // A bet that wins without limit has won, whatever was put on it.
      begun = std::isinf(gain) ? kMost : std::min(begun * std::min(std::exp(gain), kMost), kMost);
      log_capital += gain;
      e_values[epoch] += std::exp(log_capital) / n_bets;
      changes[epoch] += begun / n_bets;
    }
  }
}

}  // namespace scurry
