-- The SQL objects are those of the version before the library's: the other tests of this schedule say what is served.
SELECT pgq_ext.library_version() <> extversion AS older, pgq_ext.library_serves(extversion) AS served, pgq_ext.library_serves('0.0') AS all_served
FROM pg_extension WHERE extname = 'pgq_ext';
SELECT status, hint FROM pgq_ext.health WHERE "check" = 'library';
