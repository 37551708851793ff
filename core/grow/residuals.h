// Trees that fit residuals by least squares and pay a price for each feature that no tree has used before.
#pragma once

#include <cstdint>
#include <span>

#include "grow/rows.h"

namespace scurry {

// Sets prices to 0 for the features the tree uses, and leaf_of_row to each row's leaf.
GrownTree grow_residuals(const ColumnOrders& columns, std::span<const double> residuals, std::span<double> prices,
                         std::size_t max_depth, std::span<std::int32_t> leaf_of_row);

}  // namespace scurry
