#include "password.h"

#include <cstdio>
#include <memory>
#include <termios.h>

namespace top {

std::optional<std::string>
asked_password(const std::string &prompt)
{
	std::unique_ptr<FILE, int (*)(FILE *)> tty(fopen("/dev/tty", "r+"), fclose);
	if (!tty)
		return {};
	termios before;
	int fd = fileno(tty.get());
	if (tcgetattr(fd, &before) != 0)
		return {};
	termios silent = before;
	silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
	tcsetattr(fd, TCSAFLUSH, &silent);
	fputs(prompt.c_str(), tty.get());
	fflush(tty.get());

	std::string password;
	int c;
	while ((c = fgetc(tty.get())) != EOF && c != '\n')
		password += static_cast<char>(c);
	tcsetattr(fd, TCSAFLUSH, &before);
	fputs("\n", tty.get());
	return c == EOF && password.empty() ? std::nullopt : std::optional(password);
}

} // namespace top
