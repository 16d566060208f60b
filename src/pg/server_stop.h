/* Tells whether the whole server is being stopped, not only one process. */
#pragma once

namespace pgq {

/*
 * Return whether the postmaster stops the server. The postmaster notes a stop in its lock file
 * before it sends signals to the processes. Returns true if the file does not exist. Safe in a
 * signal handler.
 */
bool server_is_stopping();

} // namespace pgq
