// Categories: the values that the codes 0, 1, … of one feature stand for, found by hashing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace scurry {

// A number by its value: 3, 3.0 and true are one number, and no whole number is rounded.
struct Number {
  enum class Kind : std::uint8_t { kInteger, kLarge, kOther };  // kLarge: 2**63 or more, kOther: no whole number
  std::uint64_t bits = 0;
  Kind kind = Kind::kInteger;

  static Number of(std::int64_t value) { return {static_cast<std::uint64_t>(value), Kind::kInteger}; }
  static Number of(std::uint64_t value) { return {value, value >> 63 ? Kind::kLarge : Kind::kInteger}; }
  static Number of(double value);
  bool operator==(const Number&) const = default;
};

// What numbers mean in a column of a table whose feature has categories.
enum class NumbersAre : std::uint8_t {
  kValues,             // of categories
  kValuesUnlessCodes,  // the same, but one that is no category and could be a code is refused
  kCodes,
  kRefused,
};

// A text of up to 16 bytes as two words, with zeros behind its end.
struct ShortText {
  static constexpr std::size_t kMost = 16;  // bytes
  std::uint64_t low = 0, high = 0, size = 0;

  // Of two words that hold its bytes, and whatever follows them.
  static ShortText of(std::uint64_t low, std::uint64_t high, std::size_t size) {
    return {low & kMasks[size], high & kMasks[kMost + 1 + size], size};
  }
  // 16 bytes from `at` on must be readable.
  static ShortText at(const char* at, std::size_t size) {
    std::uint64_t words[2];
    std::memcpy(words, at, sizeof words);
    return of(words[0], words[1], size);
  }
  // Without a branch for each word, which texts of several lengths would make the processor guess.
  bool operator==(const ShortText& other) const {
    return ((low ^ other.low) | (high ^ other.high) | (size ^ other.size)) == 0;
  }

 private:
  static constexpr auto kMasks = [] {  // by size: those of the low word, then those of the high one
    std::array<std::uint64_t, 2 * (kMost + 1)> masks{};
    for (std::size_t size = 0; size <= kMost; ++size) {
      masks[size] = size >= 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * size) - 1;
      masks[kMost + 1 + size] = size <= 8 ? 0 : size == 16 ? ~std::uint64_t{0} : (std::uint64_t{1} << 8 * (size - 8)) - 1;
    }
    return masks;
  }();
};

constexpr double kNoCode = std::numeric_limits<double>::quiet_NaN();
constexpr double kFirstRounded = 9007199254740992.0;  // 2**53: from here on doubles have gaps between whole numbers

class Categories {
 public:
  // `missing_code` is what missing values get, where they are a category of their own, and `na_code` what pandas' NA
  // gets, which some sources tell from NaN. A null of a table is None or NaN: None where that is listed, unless
  // `set_null_code` says something else.
  Categories(NumbersAre numbers, double missing_code, double na_code)
      : numbers_are_(numbers), missing_code_(missing_code), na_code_(na_code) {}

  // Each takes the next code. Of values that are added twice the last counts.
  void add_text(std::string_view text);
  void add_number(Number number);
  void add_none() { none_code_ = static_cast<double>(n_codes_++); }
  void set_null_code(double code) { null_code_ = code; }
  // Prepares looking up short texts, once all are added.
  void index_short_texts();

  // Codes, kNoCode for what is no category.
  double code_of(std::string_view text) const;
  double code_of(Number number) const;
  bool finds_short_texts() const { return !shorts_.empty(); }
  double code_of(const ShortText& text) const {
    for (std::size_t slot = short_slot(text, short_factor_);; slot = (slot + 1) & short_mask_) {
      const Short& held = shorts_[slot];
      if (held.text == text) return held.code;
      if (held.text.size > ShortText::kMost) return kNoCode;
    }
  }
  double none_code() const { return none_code_; }
  double missing_code() const { return missing_code_; }
  double na_code() const { return na_code_; }
  double null_code() const { return null_code_.value_or(none_code_ == none_code_ ? none_code_ : missing_code_); }

  NumbersAre numbers_are() const { return numbers_are_; }
  bool is_code(double number) const;
  bool has_texts() const { return n_texts_ > 0; }
  bool has_numbers() const { return n_numbers_ > 0; }
  bool has_rounded() const { return has_rounded_; }  // some could not be told apart as doubles
  bool empty() const { return n_codes_ == 0; }

 private:
  struct Text {
    std::size_t begin = 0, size = 0;
    std::uint32_t hash = 0;
    std::int32_t code = -1;
  };
  struct Entry {
    Number number;
    std::int32_t code = -1;
  };

  struct Short {
    ShortText text{0, 0, ShortText::kMost + 1};  // no text has this size
    double code = kNoCode;
  };

  std::size_t short_slot(const ShortText& text, std::uint64_t factor) const {
    std::uint64_t word = text.low ^ (text.high << 32 | text.high >> 32);
    word ^= word >> 32;
    return static_cast<std::size_t>(word * factor >> 32) & short_mask_;
  }
  void grow();
  std::size_t slot_of(std::string_view text, std::uint32_t hash) const;
  std::size_t slot_of(Number number) const;
  std::int32_t next_code();

  NumbersAre numbers_are_;
  double missing_code_, na_code_;
  double none_code_ = kNoCode;
  std::optional<double> null_code_;
  std::size_t n_codes_ = 0, n_texts_ = 0, n_numbers_ = 0;
  bool has_rounded_ = false;
  std::string bytes_;           // of all texts
  std::size_t text_mask_ = 0;   // one less than there are slots
  std::vector<Text> texts_;     // open addressing, a power of two, at most a quarter full
  std::vector<Entry> numbers_;  // likewise
  std::vector<Short> shorts_;   // likewise, at most an eighth full; empty: look for texts in texts_
  std::uint64_t short_factor_ = 0;
  std::size_t short_mask_ = 0;
};

}  // namespace scurry
