#include "pg/server_stop.h"

#include "pg/pg.h"

#include <fcntl.h>
#include <unistd.h>

namespace pgq {

/* Uses only functions that are safe in a signal handler. */
bool
server_is_stopping()
{
	char text[1024];
	int file = open("postmaster.pid", O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return true;
	ssize_t length = read(file, text, sizeof(text) - 1);
	(void) close(file);
	if (length < 0)
		return true;
	text[length] = '\0';
	const char *line = text;
	for (int i = 1; i < LOCK_FILE_LINE_PM_STATUS && line != nullptr; i++)
	{
		line = strchr(line, '\n');
		line = line != nullptr ? line + 1 : nullptr;
	}
	return line != nullptr && strncmp(line, PM_STATUS_STOPPING, strlen(PM_STATUS_STOPPING)) == 0;
}

bool
postmaster_has_ended()
{
	return IsUnderPostmaster && !PostmasterIsAliveInternal();
}

} // namespace pgq
