/* Tells whether the whole server is being stopped or has lost its postmaster. */
#pragma once

namespace pgq {

/*
 * Return whether the postmaster stops the server. The postmaster notes a stop in its lock file
 * before it sends signals to the processes. Returns true if the file does not exist. Safe in a
 * signal handler.
 */
bool server_is_stopping();

/*
 * Return whether the postmaster has ended. Asks the kernel each time, which costs a system call:
 * PostmasterIsAlive() may not know of the end yet when another process has already ended because
 * of it.
 */
bool postmaster_has_ended();

} // namespace pgq
