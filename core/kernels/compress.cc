// Moves rows together, column by column, in one instruction for 64 of them (runtime/alive_rows.h).
#include <bit>

#include "kernels/isa.h"

namespace scurry::SCURRY_ISA {
namespace {

#if defined(__AVX512VBMI2__)

// A register is stored as a whole: what it writes behind the rows that stay was read before, or is overwritten next.
void compress_bytes(u8* column, std::size_t n_columns, std::size_t apart, const std::uint64_t* removed, std::size_t n) {
  for (std::size_t c = 0; c < n_columns; ++c, column += apart) {
    u8* to = column;
    for (std::size_t first = 0; first < n; first += kChunk) {
      const std::uint64_t stays = ~removed[first / kChunk];
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi8(stays, _mm512_loadu_si512(column + first)));
      to += std::popcount(stays);
    }
  }
}

void compress_words(u32* column, std::size_t n_columns, std::size_t apart, const std::uint64_t* removed, std::size_t n) {
  for (std::size_t c = 0; c < n_columns; ++c, column += apart) {
    u32* to = column;
    for (std::size_t first = 0; first < n; first += kVectorLanes) {
      const auto stays = static_cast<__mmask16>(~removed[first / kChunk] >> (first % kChunk));
      _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(stays, _mm512_loadu_si512(column + first)));
      to += std::popcount(static_cast<u32>(stays));
    }
  }
}

#else

constexpr auto compress_bytes = nullptr;
constexpr auto compress_words = nullptr;

#endif

}  // namespace

const CompressKernels kCompressKernels = {compress_bytes, compress_words};

}  // namespace scurry::SCURRY_ISA
