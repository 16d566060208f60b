/*
 * Creates the segments of all rings, in the first pgq_create_queue. Segments are ordinary tables
 * that do not belong to the extension, so pg_dump locks and dumps them.
 */
#pragma once

namespace pgq {

void create_segments();

} // namespace pgq
