#include "tables/categories.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace scurry {
namespace {

constexpr std::size_t kFewest = 8;  // slots

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

// Calls visit with words that together hold all bytes of a text, some of them twice: no loop over single bytes. Stops
// where visit returns false.
template <class Visit>
bool all_words(std::size_t size, Visit visit) {
  if (size >= 8) {
    for (std::size_t at = 0; at + 8 < size; at += 8) {
      if (!visit([at](const char* text) { return load<std::uint64_t>(text + at); })) return false;
    }
    return visit([size](const char* text) { return load<std::uint64_t>(text + size - 8); });
  }
  if (size >= 4) {
    return visit([size](const char* text) {
      return std::uint64_t{load<std::uint32_t>(text)} << 32 | load<std::uint32_t>(text + size - 4);
    });
  }
  if (size == 0) return true;
  return visit([size](const char* text) {
    const auto byte = [text](std::size_t at) { return std::uint64_t{static_cast<unsigned char>(text[at])}; };
    return byte(0) << 16 | byte(size / 2) << 8 | byte(size - 1);
  });
}

std::uint32_t hash_of(std::string_view text) {
  std::uint64_t hash = text.size();
  all_words(text.size(), [&](auto word) {
    hash = mix(hash ^ word(text.data()));
    return true;
  });
  return static_cast<std::uint32_t>(hash ^ hash >> 32);
}

bool are_equal(const char* one, const char* other, std::size_t size) {
  return all_words(size, [&](auto word) { return word(one) == word(other); });
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
  if (2 * (n_texts_ + 1) > texts_.size() || 2 * (n_numbers_ + 1) > numbers_.size()) grow();
  return static_cast<std::int32_t>(n_codes_++);
}

void Categories::grow() {
  std::vector<Text> texts(std::bit_ceil(std::max(kFewest, 4 * (n_texts_ + 1))));
  std::vector<Entry> numbers(std::bit_ceil(std::max(kFewest, 4 * (n_numbers_ + 1))));
  texts.swap(texts_);
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
  const std::size_t mask = texts_.size() - 1;
  for (std::size_t slot = hash & mask;; slot = (slot + 1) & mask) {
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
