/*
 * Checks whether a handler may run: its function, its role, and their rights. A handler that fails
 * a check is suspended; its jobs wait, and no attempt is spent. See README.md in this folder.
 */
#pragma once

#include "catalog/handler_row.h"

namespace pgq {

/* What keeps a handler from running. */
struct Fault
{
	int code; /* SQLSTATE; 0: nothing */
	/* long enough for the longest text with two names, so that no character is cut */
	char message[256];
	char hint[256]; /* empty: none */

	bool any() const { return code != 0; }
};

/* Raise the fault as an error. */
[[noreturn]] void raise_fault(const Fault &fault);

/*
 * Fill in the function of the row: its names, its owner, and whether it takes an array. Returns a
 * fault if there is no such function, or if it cannot be a handler.
 */
Fault describe_function(HandlerRow *row);

/*
 * Return the function that the row is about: by its OID, or else by its names, argument and owner.
 * InvalidOid: there is none.
 */
Oid function_of_row(const HandlerRow &row);

/*
 * Return what keeps the handler from running now. If pg_upgrade has changed the OID of the
 * function, put the new OID into the row, and set *row_changed. queue: its name, for the message.
 * here: stamp() of this database.
 */
Fault fault_of(HandlerRow *row, const char *queue, int64 here, bool *row_changed);

/*
 * Return why the current role may not set this handler: it cannot SET ROLE to run_as, or lacks a
 * right that run_as needs, too.
 */
Fault fault_of_setter(const HandlerRow &row, const char *queue);

/*
 * Return whether functions, roles or their rights have changed since the last call of
 * note_check_of_all(), so that the result of fault_of() may differ. A right on a queue may have
 * changed without that. Call note_check_of_all() before checking.
 */
bool faults_may_differ();
void note_check_of_all();

/* Whether a handler may run as a superuser; the setting pgq_ext.superuser_handlers. */
extern bool superuser_handlers;

/* Define the settings of handlers. Called by _PG_init. */
void handlers_init();

} // namespace pgq
