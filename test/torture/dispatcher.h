/* Handlers: what the actors and the auditor share. */
#pragma once

#include "actor.h"

namespace torture {

/* The role that owns the handlers, and as which they run. */
inline const std::string kHandlerRole = "torture_handler";

/*
 * Create the queues, the functions of the handlers and the role, and set the handlers. Does nothing
 * if the SQL objects are of a version without handlers, or if all that exists.
 */
void prepare_handlers(Session &session);

/* Options of a handler. */
struct HandlerSpec
{
	int workers = 2;
	Time timeout = 5 * kSecond;
	int batch = 1;
	Time idle = kSecond;
};

/* Return random options for the handler of the queue. */
HandlerSpec some_handler(Random &random, const std::string &queue);

/* Return the statement that sets the handler of the queue. */
std::string setting_of(const std::string &queue, const HandlerSpec &spec);

/*
 * At a quiet point: pause the handlers, and wait until no worker is left that could change
 * anything.
 */
void stop_handlers(Session &session, Random &random);
void start_handlers(Session &session);
/* At a quiet point without open transactions: let the handlers do all jobs; then stop them. */
void drain_handlers(Session &session, Random &random);
/*
 * Check the jobs and the effects of handlers, which are stopped. drained: drain_handlers() was
 * called. Forgets jobs that have ended.
 */
void audit_handlers(Session &session, bool drained);

} // namespace torture
