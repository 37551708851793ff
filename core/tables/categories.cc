#include "tables/categories.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>

namespace scurry {
namespace {

constexpr std::size_t kFewest = 8;  // slots
constexpr std::size_t kMostShorts = 4096;  // more would not stay in the cache
constexpr int kTries = 16;                 // factors tried: few texts should have to be looked for in a second slot

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

template <class T>
T load(const char* at) {
  T word;
  std::memcpy(&word, at, sizeof(T));
  return word;
}

// Joins words that together hold all bytes of a text, some of them twice: no loop over single bytes. From 8 to 32 bytes
// there are always four, so that texts of several lengths in a column leave the processor nothing to guess.
template <class Word, class Join>
std::uint64_t join_words(std::size_t size, Word word, Join join) {
  const auto whole = [&](std::size_t at) { return word.template operator()<std::uint64_t>(at); };
  const auto half = [&](std::size_t at) { return std::uint64_t{word.template operator()<std::uint32_t>(at)}; };
  const auto byte = [&](std::size_t at) { return std::uint64_t{word.template operator()<std::uint8_t>(at)}; };
  if (size >= 8) {
    const std::size_t last = size - 8;
    if (size <= 32) {
      const std::uint64_t first = join(whole(0), whole(std::min<std::size_t>(8, last)));
      return join(first, join(whole(std::max<std::size_t>(16, size) - 16), whole(last)));
    }
    std::uint64_t all = whole(0);
    for (std::size_t at = 8; at < last; at += 8) all = join(all, whole(at));
    return join(all, whole(last));
  }
  if (size >= 4) return half(0) << 32 | half(size - 4);
  return size == 0 ? 0 : byte(0) << 16 | byte(size / 2) << 8 | byte(size - 1);
}

std::uint32_t hash_of(std::string_view text) {
  const std::uint64_t joined = join_words(
      text.size(), [text]<class T>(std::size_t at) { return load<T>(text.data() + at); },
      [](std::uint64_t one, std::uint64_t other) {
        return std::rotl(one * 0x9e3779b97f4a7c15u, 31) + other * 0xc2b2ae3d27d4eb4fu;
      });
  const std::uint64_t hash = mix(joined + text.size());
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

bool are_equal(const char* one, const char* other, std::size_t size) {
  const auto differ = [=]<class T>(std::size_t at) { return static_cast<T>(load<T>(one + at) ^ load<T>(other + at)); };
  return join_words(size, differ, std::bit_or<std::uint64_t>()) == 0;
}

std::size_t hash_of(Number number) {
  return static_cast<std::size_t>(mix(number.bits + static_cast<std::uint64_t>(number.kind)));
}

}  // namespace

Number Number::of(double value) {
  if (value >= -0x1p63 && value < 0x1p63 && value == std::floor(value)) return of(static_cast<std::int64_t>(value));
  if (value >= 0x1p63 && value < 0x1p64) return of(static_cast<std::uint64_t>(value));
  return {std::bit_cast<std::uint64_t>(value), Kind::kOther};
}

std::int32_t Categories::next_code() {
  if (n_codes_ >= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw std::invalid_argument("too many categories");
  }
  if (4 * (n_texts_ + 1) > texts_.size() || 4 * (n_numbers_ + 1) > numbers_.size()) grow();
  return static_cast<std::int32_t>(n_codes_++);
}

void Categories::grow() {
  std::vector<Text> texts(std::bit_ceil(std::max(kFewest, 8 * (n_texts_ + 1))));
  std::vector<Entry> numbers(std::bit_ceil(std::max(kFewest, 8 * (n_numbers_ + 1))));
  texts.swap(texts_);
  text_mask_ = texts_.size() - 1;
  numbers.swap(numbers_);
  for (const Text& text : texts) {
    if (text.code >= 0) texts_[slot_of({bytes_.data() + text.begin, text.size}, text.hash)] = text;
  }
  for (const Entry& entry : numbers) {
    if (entry.code >= 0) numbers_[slot_of(entry.number)] = entry;
  }
}

// The slot of a text, or the empty one where it would be.
std::size_t Categories::slot_of(std::string_view text, std::uint32_t hash) const {
  for (std::size_t slot = hash & text_mask_;; slot = (slot + 1) & text_mask_) {
    const Text& held = texts_[slot];
    if (held.code < 0) return slot;
    if (held.hash == hash && held.size == text.size() &&
        are_equal(bytes_.data() + held.begin, text.data(), text.size())) {
      return slot;
    }
  }
}

std::size_t Categories::slot_of(Number number) const {
  const std::size_t mask = numbers_.size() - 1;
  std::size_t slot = hash_of(number) & mask;
  while (numbers_[slot].code >= 0 && numbers_[slot].number != number) slot = (slot + 1) & mask;
  return slot;
}

void Categories::add_text(std::string_view text) {
  const std::int32_t code = next_code();
  const std::uint32_t hash = hash_of(text);
  Text& held = texts_[slot_of(text, hash)];
  if (held.code < 0) {
    held = {bytes_.size(), text.size(), hash, code};
    bytes_.append(text);
    ++n_texts_;
  }
  held.code = code;
}

void Categories::add_number(Number number) {
  const std::int32_t code = next_code();
  Entry& held = numbers_[slot_of(number)];
  n_numbers_ += held.code < 0;
  held = {number, code};
  const double value = number.kind == Number::Kind::kInteger ? static_cast<double>(static_cast<std::int64_t>(number.bits))
                                                             : kFirstRounded;
  has_rounded_ = has_rounded_ || (number.kind != Number::Kind::kOther && std::abs(value) >= kFirstRounded);
}

void Categories::index_short_texts() {
  if constexpr (std::endian::native != std::endian::little) return;  // words are masked from their low bytes on
  std::vector<Short> known;
  for (const Text& held : texts_) {
    if (held.code < 0 || held.size > ShortText::kMost) continue;
    char bytes[ShortText::kMost] = {};
    std::copy_n(bytes_.data() + held.begin, held.size, bytes);
    known.push_back({ShortText::at(bytes, held.size), static_cast<double>(held.code)});
  }
  if (known.empty() || known.size() > kMostShorts) return;
  short_mask_ = std::bit_ceil(8 * known.size()) - 1;
  std::size_t fewest = known.size() + 1;
  std::uint64_t factor = 0x9e3779b97f4a7c15u;
  for (int attempt = 0; attempt < kTries && fewest > 0; ++attempt, factor = mix(factor) | 1) {
    std::vector<bool> taken(short_mask_ + 1);
    std::size_t n_taken = 0;
    for (const Short& one : known) {
      const std::size_t slot = short_slot(one.text, factor);
      n_taken += taken[slot];
      taken[slot] = true;
    }
    if (n_taken < fewest) {
      fewest = n_taken;
      short_factor_ = factor;
    }
  }
  shorts_.assign(short_mask_ + 1, {});
  for (const Short& one : known) {
    std::size_t slot = short_slot(one.text, short_factor_);
    while (shorts_[slot].text.size <= ShortText::kMost) slot = (slot + 1) & short_mask_;
    shorts_[slot] = one;
  }
}

double Categories::code_of(std::string_view text) const {
  if (n_texts_ == 0) return kNoCode;
  const Text& held = texts_[slot_of(text, hash_of(text))];
  return held.code < 0 ? kNoCode : held.code;
}

double Categories::code_of(Number number) const {
  if (n_numbers_ == 0) return kNoCode;
  const Entry& held = numbers_[slot_of(number)];
  return held.code < 0 ? kNoCode : held.code;
}

bool Categories::is_code(double number) const {
  return number >= 0 && number < static_cast<double>(n_codes_) && number == std::floor(number);
}

}  // namespace scurry
