#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "ir/error.h"

/// The expression throws skirl::Error with exactly this complaint (its first part: without "at" and "help").
#define CHECK_ERROR(expression, expected)                                       \
  do {                                                                          \
    std::string complaint_;                                                     \
    try {                                                                       \
      static_cast<void>(expression);                                            \
      complaint_ = "(no error)";                                                \
    } catch (const ::skirl::Error& error_) {                                    \
      complaint_ = error_.complaint();                                          \
    }                                                                           \
    CHECK(complaint_ == std::string(expected));                                 \
  } while (false)
