/* Asks for a password on the terminal, without showing it. Nothing if there is no terminal. */
#pragma once

#include <optional>
#include <string>

namespace top {

std::optional<std::string> asked_password(const std::string &prompt);

} // namespace top
