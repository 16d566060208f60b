#include "engine/child_watch.h"

namespace pgq {

bool
may_have_children(const Database *)
{
	return true;
}

void
expect_children(Database *)
{}

} // namespace pgq
