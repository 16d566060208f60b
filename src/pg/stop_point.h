/*
 * Stop points for tests of races: a backend that reaches the named point waits until the test lets
 * it go on. When the setting is empty, a stop point costs one comparison.
 *
 * To use a stop point, set pgq_ext.stop_point (superusers only) to its name. A backend that reaches
 * the point takes and releases the advisory lock (7366513, 0), "pgq" in ASCII. The test holds that
 * lock in another session to keep the backend there; pg_locks and
 * pg_isolation_test_session_is_blocked() see the wait.
 */
#pragma once

namespace pgq {

extern char *stop_point_name;

void stop_point_init();
void stop_here();

/* Return whether the setting has this name, for tests that shorten a wait of the scheduler. */
inline bool
is_stop_point(const char *name)
{
	return stop_point_name[0] != '\0' && __builtin_strcmp(stop_point_name, name) == 0;
}

inline void
stop_point(const char *name)
{
	if (is_stop_point(name)) [[unlikely]]
		stop_here();
}

} // namespace pgq
