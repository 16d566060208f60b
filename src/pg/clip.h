/* Copies texts of any length to buffers of a fixed size. */
#pragma once

#include "pg/pg.h"

namespace pgq {

/*
 * Copy a text. If the buffer is too small, cut the text between two characters of the database's
 * encoding.
 */
template <size_t kSize>
inline void
copy_clipped(char (&to)[kSize], const char *from)
{
	int length = pg_mbcliplen(from, static_cast<int>(strlen(from)), kSize - 1);
	memcpy(to, from, length);
	to[length] = '\0';
}

} // namespace pgq
