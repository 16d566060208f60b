/* Reading a password from the terminal without echo. Returns nothing if there is no terminal. */
#pragma once

#include <optional>
#include <string>

namespace top {

std::optional<std::string> asked_password(const std::string &prompt);

} // namespace top
