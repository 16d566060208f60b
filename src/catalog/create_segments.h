/*
 * Creates the segments, at the first pgq_create_queue. Segments are ordinary tables, so pg_dump
 * locks and dumps them.
 */
#pragma once

namespace pgq {

void create_segments();

} // namespace pgq
