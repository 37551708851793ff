// Bets: what gamblers who bet that a promise is broken have after each epoch of rows.
//
// It is looked at while rows are predicted, so that it is one pass over numbers that fit a few cache lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace scurry {

// What rows of each epoch lost, and what that does to a bet.
struct BetEpochs {
  std::span<const std::int64_t> counts;  // [n_epochs][n_losses]: how often each loss occurred
  std::span<const double> started;       // n_epochs: finite if the epoch has rows, so that a gambler begins before it
  std::span<const double> log_gains;     // [n_bets][n_losses]: log of what one row with a loss multiplies capital by
  std::size_t n_losses = 0;

  std::size_t n_epochs() const { return started.size(); }
  std::size_t n_bets() const { return log_gains.size() / n_losses; }
};

// What each bet has come to, before the first of some epochs.
struct BetState {
  std::span<double> log_capital;  // n_bets: of the gambler who began at the first row with a capital of 1
  std::span<double> begun;        // n_bets: the capital of all who began before an epoch, together
};

// Adds to `e_values` and `changes`, entry by entry for each epoch, the mean over bets of the capital of the first
// gambler and of all that began before an epoch with `first_capital`. Moves `state` on to before the last epoch, to
// which rows may still come.
void follow_bets(const BetEpochs& epochs, double first_capital, const BetState& state, std::span<double> e_values,
                 std::span<double> changes);

}  // namespace scurry
