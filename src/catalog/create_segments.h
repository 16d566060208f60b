/*
 * The first pgq_create_queue makes the segments: ordinary tables, so that pg_dump locks and dumps them.
 */
#pragma once

namespace pgq {

void create_segments();

} // namespace pgq
