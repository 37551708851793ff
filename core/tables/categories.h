// Categories: the values that the codes 0, 1, … of one feature stand for, found by hashing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
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

constexpr double kNoCode = std::numeric_limits<double>::quiet_NaN();
constexpr double kFirstRounded = 9007199254740992.0;  // 2**53: from here on doubles have gaps between whole numbers

class Categories {
 public:
  // `missing_code` is what missing values get, where they are a category of their own, and `na_code` what pandas' NA
  // gets, which some sources tell from NaN.
  Categories(NumbersAre numbers, double missing_code, double na_code)
      : numbers_are_(numbers), missing_code_(missing_code), na_code_(na_code) {}

  // Each takes the next code. Of values that are added twice the last counts.
  void add_text(std::string_view text);
  void add_number(Number number);
  void add_none() { none_code_ = static_cast<double>(n_codes_++); }

  // Codes, kNoCode for what is no category.
  double code_of(std::string_view text) const;
  double code_of(Number number) const;
  double none_code() const { return none_code_; }
  double missing_code() const { return missing_code_; }
  double na_code() const { return na_code_; }

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

  void grow();
  std::size_t slot_of(std::string_view text, std::uint32_t hash) const;
  std::size_t slot_of(Number number) const;
  std::int32_t next_code();

  NumbersAre numbers_are_;
  double missing_code_, na_code_;
  double none_code_ = kNoCode;
  std::size_t n_codes_ = 0, n_texts_ = 0, n_numbers_ = 0;
  bool has_rounded_ = false;
  std::string bytes_;           // of all texts
  std::size_t text_mask_ = 0;   // one less than there are slots
  std::vector<Text> texts_;     // open addressing, a power of two, at most a quarter full
  std::vector<Entry> numbers_;  // likewise
};

}  // namespace scurry
