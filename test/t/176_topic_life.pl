# The life of bindings and of rights on topics: dumps and restores in every form, copies, logical replication, a standby; roles and
# queues that come and go; and what an administrator may do to the tables. A publish goes to the right queues, or raises an error.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use PgqTest;

my $node = pgq_node('main', init => { allows_streaming => 'logical' });
my $dir  = $node->basedir;
sub sql { my ($sql, $db) = @_; return $node->safe_psql($db // 'postgres', $sql) }
sub state_of { my ($sql, $db) = @_; return (sqlstate($node, $sql, $db))[0] }

# The queues that get a job of the topic, or the SQLSTATE; the session may have remembered another answer.
my %sessions;
sub session_in { my ($db) = @_; return $sessions{$db} //= session($node, $db) }
sub queues_of
{
	my ($topic, $db, $role) = @_;
	my $session = session_in($db // 'postgres');
	my ($out, $error) = ask($session, '\set VERBOSITY verbose' . "\nSET ROLE ${\($role // 'postgres')};\n"
		  . "SELECT coalesce(string_agg(queue, ' ' ORDER BY queue), '-') FROM pgq_publish('$topic', '1');\nRESET ROLE");
	return $error =~ /ERROR:  ([0-9A-Z]{5}): / ? $1 : $out;
}
sub close_database { my ($db) = @_; end_session(delete $sessions{$db}) if $sessions{$db}; return sql("DROP DATABASE IF EXISTS $db") }

sql('CREATE ROLE app; CREATE ROLE guest; CREATE ROLE admin');
sub grant_all { my ($db) = @_; return sql('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO app, guest, admin; GRANT USAGE ON SCHEMA pgq_ext TO app, guest, admin', $db) }
create_queue($node, $_) for qw(a b c);
grant_all('postgres');
sql(q{SELECT pgq_bind('x.#', 'a'), pgq_bind('x.*', 'b', '{"when_full": "skip"}'), pgq_bind('y', 'c');
	SELECT pgq_grant_topic('x.#', 'app', '{publish,subscribe}'), pgq_grant_topic('*.z', 'guest', '{publish}')});
my $rows = q{SELECT string_agg(concat_ws(' ', b.queue_id, pattern, when_full, created_at, maker_name), ', ' ORDER BY 1, 2) FROM pgq_ext.topic_binding b} =~ s/ORDER BY 1, 2/ORDER BY b.queue_id, pattern/r;
my $rights = q{SELECT string_agg(concat_ws(' ', p.pattern_id, pattern, relacl), ', ' ORDER BY pattern_id) FROM pgq_ext.topic_pattern p LEFT JOIN pg_class ON relname = 'topic_rights_' || pattern_id AND relnamespace = 'pgq_ext'::regnamespace};
my ($bound, $granted) = (sql($rows), sql($rights));
my $triggers = q{SELECT count(*) || ' ' || string_agg(DISTINCT tgenabled::text, '') FROM pg_trigger WHERE tgname ~ '^topic_'};
is(sql($triggers), '4 A', 'four triggers fire always');

# ---- dumps ----

# rights: whether the dump has the rights.
sub restored_ok
{
	my ($what, $db, %options) = @_;
	my $has_rights = $options{rights} // 1;
	grant_all($db);
	is(sql($rows, $db), $bound, "$what: all bindings");
	is(sql($rights, $db), $granted, '... and rights') if $has_rights;
	is(queues_of('x.y', $db), 'a b', '... route');
	is(queues_of('x.y', $db, 'app'), $has_rights ? 'a b' : '42501', '... for who has a right');
	is(queues_of('x.y', $db, 'guest'), '42501', '... and for no other');
	# The session above has remembered the bindings and the rights.
	sql(q{SELECT pgq_bind('x.y', 'c'), pgq_grant_topic('x.#', 'guest', '{publish}'), pgq_grant_topic('new.#', 'app', '{publish}')}, $db);
	is(queues_of('x.y', $db, 'guest'), 'a b c', '... a new binding and a new right count at once');
	is(queues_of('new.1', $db, 'guest'), '42501', '... also for a new pattern');
	is(sql(q{SELECT count(*), count(DISTINCT pattern_id), bool_and(to_regclass('pgq_ext.topic_rights_' || pattern_id) IS NOT NULL) FROM pgq_ext.topic_pattern WHERE pattern <> '*.z'}, $db), '2|2|t', '... which has an id and a view of its own');
	is(sql(q{SELECT pgq_create_queue('new'); SELECT pgq_bind('x.y', 'new')}, $db), "t\n", '... a new queue is bound');
	is(queues_of('x.y', $db), 'a b c new', '... and gets jobs');
	wait_for($node, "($triggers) = '4 A'", $db);
	is(sql('SELECT count(*) FROM pgq_check()', $db), '0', '... memory and tables agree');
	return close_database($db);
}
sub new_db { my ($db) = @_; close_database($db); sql("CREATE DATABASE $db TEMPLATE template0"); return $node->connstr($db) }
sub run_ok { my ($what, @command) = @_; return $node->command_ok(\@command, $what) }
sub restore_ok { my ($what, @options) = @_; return run_ok($what, 'pg_restore', '-e', @options) }
my $source = $node->connstr('postgres');

run_ok('pg_dump, custom', 'pg_dump', '-Fc', '-f', "$dir/custom", $source);
run_ok('pg_dump, directory', 'pg_dump', '-Fd', '-j2', '-f', "$dir/directory", $source);
run_ok('pg_dump, inserts', 'pg_dump', '--inserts', '-f', "$dir/inserts.sql", $source);
run_ok('pg_dump, without privileges', 'pg_dump', '-Fc', '-x', '-f', "$dir/unprivileged", $source);

restore_ok('custom', '-d', new_db('d'), "$dir/custom");
restored_ok('custom', 'd');
restore_ok('in parallel', '-j2', '-d', new_db('d'), "$dir/directory");
restored_ok('in parallel', 'd');
restore_ok('in one transaction', '-1', '-d', new_db('d'), "$dir/custom");
restored_ok('in one transaction', 'd');
new_db('d');
run_ok('inserts', 'psql', '-Xq', '-o', '/dev/null', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/inserts.sql", $node->connstr('d'));
restored_ok('inserts', 'd');
restore_ok('without privileges', '-d', new_db('d'), "$dir/unprivileged");
restored_ok('without privileges, topics stay closed', 'd', rights => 0);

# Over what is there: other bindings and rights are gone.
restore_ok('once', '-d', new_db('d'), "$dir/custom");
sql(q{SELECT pgq_bind('else', 'a'), pgq_unbind('x.#', 'a'), pgq_grant_topic('x.#', 'guest', '{publish}')}, 'd');
is(queues_of('else', 'd'), 'a', 'another binding');
restore_ok('and over it', '--clean', '--if-exists', '-d', $node->connstr('d'), "$dir/custom");
restored_ok('over what was there', 'd');

# Data only, into the schema: with its views of rights, and into the bare extension, without them.
for my $off ([], ['--disable-triggers'])
{
	restore_ok('schema only', '--schema-only', '-d', new_db('d'), "$dir/custom");
	restore_ok("data only @$off", '--data-only', @$off, '-d', $node->connstr('d'), "$dir/custom");
	restored_ok("data only @$off", 'd');
	new_db('d');
	sql('CREATE EXTENSION pgq_ext', 'd');
	restore_ok("data only @$off", '--data-only', @$off, '-d', $node->connstr('d'), "$dir/custom");
	restored_ok("data only @$off, into the bare extension", 'd', rights => 0);
}

# Table by table, the bindings before the queues; a session looks in between. The sequence stays as it is.
new_db('d');
sql(q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('segments'); SELECT pgq_drop_queue('segments')}, 'd');
for my $table (qw(topic_binding topic_pattern queue))
{
	is(queues_of('x.y', 'd'), '-', 'no queue yet') if $table eq 'topic_pattern';
	restore_ok("table $table", '--data-only', '--disable-triggers', '-t', $table, '-d', $node->connstr('d'), "$dir/custom");
}
sql(q{SELECT setval('pgq_ext.queue_queue_id_seq', max(queue_id)) FROM pgq_ext.queue}, 'd');
restored_ok('table by table', 'd', rights => 0);

# A dump while bindings change: each transaction leaves a pair.
{
	my $changer = session($node);
	send_sql($changer, q{DO $$ BEGIN FOR i IN 1 .. 300 LOOP
		PERFORM pgq_bind('pair.' || i, 'a'), pgq_bind('pair.' || i, 'b'); COMMIT;
		IF i % 2 = 0 THEN PERFORM pgq_unbind('pair.' || i, 'b'), pgq_unbind('pair.' || i, 'a'); COMMIT; END IF;
		PERFORM pg_sleep(0.005); END LOOP; END $$});
	run_ok('pg_dump while bindings change', 'pg_dump', '-Fc', '-f', "$dir/moving", $source);
	is((reply($changer))[1], '', '... goes on');
	end_session($changer);
	restore_ok('restored', '-d', new_db('d'), "$dir/moving");
	is(sql(q{SELECT count(*) FILTER (WHERE n <> 2) FROM (SELECT count(*) AS n FROM pgq_ext.topic_binding WHERE pattern ~ '^pair' GROUP BY pattern) p}, 'd'), '0', '... has whole pairs');
	sql(q{SELECT pgq_unbind(pattern, queue) FROM pgq_ext.binding WHERE pattern ~ '^pair'});
}

close_database('d');
end_session(delete $sessions{postgres}) if $sessions{postgres};
sql(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid() AND backend_type = 'client backend'; CREATE DATABASE d TEMPLATE postgres}, 'template1');
restored_ok('a copy of the database', 'd');

# ---- logical replication: rows come without statements, and without views ----

{
	new_db('d');
	sql('CREATE EXTENSION pgq_ext', 'd');
	create_queue($node, $_, '', 'd') for qw(a b c);
	grant_all('d');
	is(queues_of('x.y', 'd', 'guest'), '-', 'a subscriber has no bindings yet');
	sql('CREATE PUBLICATION p FOR TABLE pgq_ext.topic_binding, pgq_ext.topic_pattern');
	sql(q{SELECT pg_create_logical_replication_slot('s', 'pgoutput')});
	sql("CREATE SUBSCRIPTION s CONNECTION '${\$node->connstr} dbname=postgres' PUBLICATION p WITH (create_slot = false)", 'd');
	wait_for($node, "($rights) ~ 'x.*z' AND ($rows) ~ 'x.*y'", 'd');
	wait_for($node, q{count(*) = 0 FROM pg_subscription_rel WHERE srsubstate NOT IN ('r', 's')}, 'd');
	is(queues_of('x.y', 'd'), 'a b', 'the bindings have come');
	is(queues_of('x.y', 'd', $_), '42501', '... the topics are closed to all') for qw(guest app);
	sql(q{SELECT pgq_bind('later', 'c'), pgq_grant_topic('later', 'app', '{publish}')});
	wait_for($node, q{count(*) = 1 FROM pgq_ext.topic_pattern WHERE pattern = 'later'}, 'd');
	is(queues_of('later', 'd'), 'c', '... a binding that comes later counts');
	is(queues_of('later', 'd', 'app'), '42501', '... and a pattern');
	sql(q{SELECT pgq_unbind('later', 'c'); DELETE FROM pgq_ext.topic_pattern WHERE pattern = 'later'});
	wait_for($node, q{count(*) = 0 FROM pgq_ext.topic_pattern WHERE pattern = 'later'}, 'd');
	is(queues_of('later', 'd', 'app'), '-', '... until it goes');
	sql('TRUNCATE pgq_ext.topic_binding; INSERT INTO pgq_ext.topic_binding (queue_id, pattern) SELECT queue_id, $$x.#$$ FROM pgq_ext.queue WHERE queue = $$b$$');
	wait_for($node, q{count(*) = 1 FROM pgq_ext.topic_binding}, 'd');
	is(queues_of('x.y', 'd'), 'b', '... a TRUNCATE, too');
	sql('ALTER SUBSCRIPTION s DISABLE', 'd');
	sql('ALTER SUBSCRIPTION s SET (slot_name = NONE)', 'd');
	sql('DROP SUBSCRIPTION s', 'd');
	sql(q{SELECT pgq_grant_topic('x.#', 'app', '{publish}'), pgq_grant_topic('w', 'app', '{publish}')}, 'd');
	is(queues_of('x.y', 'd', 'app'), 'b', 'rights are granted again, under the id that has come');
	is(sql(q{SELECT string_agg(pattern, ' ' ORDER BY pattern_id) FROM pgq_ext.topic_pattern}, 'd'), 'x.# *.z w', '... and a new pattern has an id behind it');
	wait_for($node, q{NOT active FROM pg_replication_slots WHERE slot_name = 's'});
	sql(q{SELECT pg_drop_replication_slot('s')});
	sql(q{DROP PUBLICATION p; SELECT pgq_unbind('x.#', 'b'), pgq_bind('x.#', 'a'), pgq_bind('x.*', 'b'), pgq_bind('y', 'c')});
	close_database('d');
}

# ---- roles ----

is(state_of('DROP ROLE app'), '2BP01', 'a role with a right on a topic is not dropped');
sql('ALTER ROLE app RENAME TO application');
is(queues_of('x.y', undef, 'application'), 'a b', '... and keeps it under a new name');
sql('ALTER ROLE application RENAME TO app');
sql(q{SELECT pgq_grant_topic('r', 'guest', '{publish}'); ALTER ROLE guest RENAME TO visitor; CREATE ROLE guest; GRANT EXECUTE ON FUNCTION pgq_publish TO guest});
is(queues_of('r', undef, 'guest'), '42501', 'a new role of the old name has no right');
is(queues_of('r', undef, 'visitor'), '-', '... the old one has');
sql('DROP OWNED BY guest; DROP ROLE guest; DROP OWNED BY visitor');
is(state_of('SET ROLE visitor; SELECT * FROM pgq_publish($$r$$, $$1$$)'), '42501', 'DROP OWNED takes the rights');
sql('DROP ROLE visitor; CREATE ROLE guest; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO guest');
is(queues_of('r', undef, 'guest'), '42501', '... and the topics stay closed');
is(queues_of('r'), '-', '... but for the owner');
sql(q{REASSIGN OWNED BY app TO admin});
is(queues_of('x.y', undef, 'app'), 'a b', 'REASSIGN OWNED changes nothing');
sql(q{SELECT pgq_grant_topic('#', 'app', '{subscribe}'), pgq_grant('a', 'app', '{admin}'); SET ROLE app; SELECT pgq_bind('made.#', 'a')});
sql(q{DROP OWNED BY app; DROP ROLE app; CREATE ROLE app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO app});
is(queues_of('made.x'), 'a', 'the bindings of a role that is gone stay');
is(sql(q{SELECT maker FROM pgq_ext.binding WHERE pattern = 'made.#'}), 'app', '... with its name');
sql(q{SELECT pgq_unbind('made.#', 'a'); SELECT pgq_grant_topic('x.#', 'app', '{publish}'); DELETE FROM pgq_ext.topic_pattern WHERE pattern = '#'});

# ---- queues ----

sql(q{SELECT pgq_purge_queue('b'), pgq_rename_queue('b', 'renamed')});
is(queues_of('x.y'), 'a renamed', 'a purge and a rename leave the bindings');
sql(q{SELECT pgq_drop_queue('renamed', force => true); SELECT pgq_create_queue('renamed'), pgq_create_queue('b')});
is(queues_of('x.y'), 'a', 'a new queue of the same name does not inherit them');
is(sql(q{SELECT count(*) FROM pgq_ext.topic_binding WHERE queue_id NOT IN (SELECT queue_id FROM pgq_ext.queue)}), '0', '... nothing of them is left');
sql(q{SELECT pgq_create_queue('by-hand'); SELECT pgq_bind('x.*', 'by-hand'); DELETE FROM pgq_ext.queue WHERE queue = 'by-hand'});
is(sql(q{SELECT count(*) FROM pgq_ext.topic_binding WHERE queue_id NOT IN (SELECT queue_id FROM pgq_ext.queue)}), '0', '... nor of those of a queue whose row is deleted');
sql(q{SELECT pgq_bind('x.*', 'b'), pgq_purge_queue('a')});

# An error of a queue that may be skipped when it is full.
sql(q{SELECT pgq_bind('skip', 'b', '{"when_full": "skip"}')});
is((sqlstate($node, q{SELECT * FROM pgq_publish('skip', '1', unique_key => 'k', unique_until => 'bad')}))[0], '22023', 'an error');
is(queues_of('skip'), 'b', 'a queue that may be skipped');
like((ask(session_in('postgres'), q{SELECT * FROM pgq_publish('skip', '1', unique_key => 'k', on_conflict => 'bad')}))[1], qr/on_conflict/, '... an error');
is(queues_of('skip'), 'b', '... after which the session goes on');
sql(q{SELECT pgq_unbind('skip', 'b')});

# ---- SQL of an administrator ----

# What a session sees that has remembered the bindings, and what a new one sees. [what, change, queues or SQLSTATE, undo]
sub change_ok
{
	my ($what, $change, $expected, $undo) = @_;
	is(queues_of('x.y'), 'a b', 'as before') or return;
	sql($change);
	is(queues_of('x.y'), $expected, $what);
	end_session(delete $sessions{postgres});
	is(queues_of('x.y'), $expected, '... in a new session, too');
	sql($undo);
	return;
}
my $table = 'pgq_ext.topic_binding';
my $insert = qq{INSERT INTO %s (queue_id, pattern) SELECT queue_id, 'x.y' FROM pgq_ext.queue WHERE queue = 'c'};
my $delete = qq{DELETE FROM $table WHERE pattern = 'x.y'};
sub insert_into { return sprintf $insert, $_[0] }

change_ok('the trigger is off', "ALTER TABLE $table DISABLE TRIGGER ALL", 'a b', "ALTER TABLE $table ENABLE TRIGGER ALL");
is(queues_of('x.y'), 'a b', 'remembered');
sql("ALTER TABLE $table DISABLE TRIGGER topic_binding_changed");
is(queues_of('x.y'), 'a b', 'a trigger is off');
sql(insert_into($table));
is(queues_of('x.y'), 'a b c', '... and a row inserted without it counts');
sql(qq{UPDATE $table SET pattern = 'no' WHERE pattern = 'x.y'});
is(queues_of('x.y'), 'a b', '... changed');
sql(q{SELECT pgq_unbind('no', 'c'), pgq_bind('x.y', 'c')});
is(queues_of('x.y'), 'a b c', '... bound');
sql("$delete; ALTER TABLE $table ENABLE TRIGGER topic_binding_changed");
is(queues_of('x.y'), 'a b', '... deleted');
sql(q{SELECT pgq_bind('x.y', 'c')});
is(queues_of('x.y'), 'a b c', 'a bind while the trigger fires for origin sessions only');
wait_for($node, "($triggers) = '4 A'");
pass('... which the scheduler changes');
sql($delete);

my $definition = sql(qq{SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = '$table'::regclass AND tgname = 'topic_binding_changed'});
my $again = "$definition; ALTER TABLE $table ENABLE ALWAYS TRIGGER topic_binding_changed";
sql("ALTER EXTENSION pgq_ext DROP FUNCTION pgq_ext.topic_changed(); DROP TRIGGER topic_binding_changed ON $table");
is(queues_of('x.y'), 'a b', 'a trigger is dropped');
sql(insert_into($table));
is(queues_of('x.y'), 'a b c', '... a row counts');
sql("$delete; CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
	CREATE TRIGGER topic_binding_changed AFTER INSERT OR UPDATE OR DELETE ON $table FOR EACH ROW EXECUTE FUNCTION nothing(); ALTER TABLE $table ENABLE ALWAYS TRIGGER topic_binding_changed");
is(queues_of('x.y'), 'a b', 'another trigger of its name');
sql(insert_into($table));
is(queues_of('x.y'), 'a b c', '... is not taken for it');
sql("$delete; DROP FUNCTION nothing CASCADE; $again; ALTER EXTENSION pgq_ext ADD FUNCTION pgq_ext.topic_changed()");
is(queues_of('x.y'), 'a b', '... and back');

change_ok('rows are inserted, in a transaction with others', 'BEGIN; ' . insert_into($table) . '; TRUNCATE pgq_ext.topic_pattern; COMMIT', 'a b c', $delete);
sql(q{SELECT pgq_grant_topic('x.#', 'app', '{publish}')});
change_ok('rows are deleted', "CREATE TABLE kept AS TABLE $table; DELETE FROM $table", '-', "INSERT INTO $table TABLE kept; DROP TABLE kept");
change_ok('TRUNCATE', "CREATE TABLE kept AS TABLE $table; TRUNCATE $table", '-', "INSERT INTO $table TABLE kept; DROP TABLE kept");
change_ok('VACUUM FULL', "VACUUM FULL $table", 'a b', "CLUSTER $table USING topic_binding_pkey");
change_ok('a new column', "ALTER TABLE $table ADD more text DEFAULT 'x'", 'a b', "ALTER TABLE $table DROP more");
change_ok('a rename', "ALTER TABLE $table RENAME TO renamed", '55000', "ALTER TABLE pgq_ext.renamed RENAME TO topic_binding");
change_ok('another table of its name', "ALTER TABLE $table RENAME TO renamed; CREATE TABLE $table (LIKE pgq_ext.renamed INCLUDING ALL)", '55000',
	"DROP TABLE $table; ALTER TABLE pgq_ext.renamed RENAME TO topic_binding");
change_ok('a column is renamed', "ALTER TABLE $table RENAME pattern TO p", '55000', "ALTER TABLE $table RENAME p TO pattern");
change_ok('another type', "DROP VIEW IF EXISTS v; ALTER TABLE $table ALTER when_full TYPE varchar(5)", '55000', "ALTER TABLE $table ALTER when_full TYPE text")
  if state_of("BEGIN; ALTER TABLE $table ALTER when_full TYPE varchar(5); ROLLBACK") eq '';
change_ok('a row without a pattern', "ALTER TABLE $table DROP CONSTRAINT topic_binding_pkey, ALTER pattern DROP NOT NULL; INSERT INTO $table (queue_id) VALUES (1)", '55000',
	"DELETE FROM $table WHERE pattern IS NULL; ALTER TABLE $table ALTER pattern SET NOT NULL, ADD PRIMARY KEY (queue_id, pattern)");
change_ok('not logged', "ALTER TABLE $table SET UNLOGGED", '55000', "ALTER TABLE $table SET LOGGED");
change_ok('another owner', "ALTER TABLE $table OWNER TO admin", '55000', "ALTER TABLE $table OWNER TO postgres");
change_ok('a child', "CREATE TABLE child () INHERITS ($table); " . insert_into('child'), 'a b', 'DROP TABLE child');
change_ok('a parent', "CREATE TABLE parent (queue_id integer, pattern text COLLATE \"C\"); ALTER TABLE $table INHERIT parent; UPDATE parent SET pattern = 'x.no' WHERE pattern = 'x.*'", 'a',
	"UPDATE parent SET pattern = 'x.*' WHERE pattern = 'x.no'; ALTER TABLE $table NO INHERIT parent; DROP TABLE parent");
change_ok('a policy', "ALTER TABLE $table ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON $table USING (false)", 'a b',
	"DROP POLICY p ON $table; ALTER TABLE $table DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY");
change_ok('the patterns are renamed', 'ALTER TABLE pgq_ext.topic_pattern RENAME TO renamed', '55000', 'ALTER TABLE pgq_ext.renamed RENAME TO topic_pattern');
is(sql('SELECT count(*) FROM pgq_check()'), '0', 'memory and tables agree');

# The table of patterns: topics do not open unseen.
is(queues_of('x.y', undef, 'guest'), '42501', 'closed');
sql('ALTER TABLE pgq_ext.topic_pattern DISABLE TRIGGER ALL');
is(queues_of('w', undef, 'guest'), '-', 'open, and remembered');
sql(q{INSERT INTO pgq_ext.topic_pattern (pattern) VALUES ('w')});
is(queues_of('w', undef, 'guest'), '42501', 'closed by a row, without the trigger');
sql(q{SELECT pgq_grant_topic('w', 'guest', '{publish}')});
is(queues_of('w', undef, 'guest'), '-', '... which gets its view with the first grant');
sql('ALTER TABLE pgq_ext.topic_pattern ENABLE TRIGGER ALL');
wait_for($node, "($triggers) = '4 A'");
my $view = sql(q{SELECT 'pgq_ext.topic_rights_' || pattern_id FROM pgq_ext.topic_pattern WHERE pattern = 'w'});
sql("DROP VIEW $view");
is(queues_of('w', undef, 'guest'), '42501', 'without its view the pattern is closed');
sql("SET ROLE guest; CREATE TEMP VIEW topic_rights_1 AS SELECT 1; RESET ROLE; CREATE VIEW $view AS SELECT 1; ALTER VIEW $view OWNER TO guest");
is(queues_of('w', undef, 'guest'), '42501', '... and a view of another owner opens nothing');
is(state_of(q{SELECT pgq_grant_topic('w', 'app', '{publish}')}), '55000', '... nor is anything granted on it');
sql("DROP VIEW $view; DELETE FROM pgq_ext.topic_pattern WHERE pattern = 'w'");
is(queues_of('w', undef, 'guest'), '-', 'without its row the pattern is open');
my $next = sql(q{SELECT last_value + 1 FROM pgq_ext.topic_pattern_id_seq});
sql("CREATE VIEW pgq_ext.topic_rights_$next AS SELECT 1; GRANT INSERT ON pgq_ext.topic_rights_$next TO guest; SELECT pgq_grant_topic('w', 'app', '{publish}')");
is(queues_of('w', undef, 'guest'), '42501', 'a new pattern does not get a view that is there');
sql("DROP VIEW pgq_ext.topic_rights_$next");

# ---- the extension ----

like((sqlstate($node, 'CREATE SCHEMA elsewhere; ALTER EXTENSION pgq_ext SET SCHEMA elsewhere'))[1], qr/does not support SET SCHEMA/, 'the extension stays in its schema');
sql('CREATE SCHEMA IF NOT EXISTS elsewhere; ALTER FUNCTION pgq_publish SET SCHEMA elsewhere');
is(sql(q{SELECT string_agg(queue, ' ') FROM elsewhere.pgq_publish('x.y', '1')}), 'a b', '... its functions may move');
sql('ALTER FUNCTION elsewhere.pgq_publish SET SCHEMA public');
is(queues_of('x.y'), 'a b', 'remembered');
is(state_of('DROP EXTENSION pgq_ext'), '2BP01', 'rights keep the extension');
sql('SET client_min_messages = error; DROP EXTENSION pgq_ext CASCADE; CREATE EXTENSION pgq_ext');
create_queue($node, $_) for qw(a b c);
is(queues_of('x.y'), '-', 'a new extension has no bindings, whatever a session has remembered');
sql(q{SELECT pgq_bind('x.y', 'c')});
is(queues_of('x.y'), 'c', '... until one is made');

# ---- watched tables ----

{
	my $jobs = q{SELECT count(*) FROM pgq_ext.job};
	my $watch = q{SELECT string_agg(concat_ws(' ', "table", target, columns, key, problem), ', ' ORDER BY target) FROM pgq_ext.watch};
	my $watches = "watched queue:changes {n,v} {n}, watched topic:t.changed {} {n}";
	my $works = sub {
		my ($what, $db) = @_;
		is(sql($watch, $db), $watches, "$what: the watches");
		is(sql($jobs, $db), '2', '... and jobs, and no others');
		sql(q{INSERT INTO watched VALUES (5, 'new'); UPDATE watched SET v = 'x' WHERE n = 1}, $db);
		is(sql($jobs, $db), '6', '... changes enqueue jobs');
		is(sql(q{SELECT pgq_unwatch_table('watched', 'changes'); DELETE FROM watched WHERE n = 2}, $db), 't', '... a watch ends');
		is(sql($jobs, $db), '7', '... the other one goes on');
		return close_database($db);
	};
	new_db('w');
	sql(q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('changes'), pgq_bind('t.#', 'changes'); CREATE TABLE watched (n int PRIMARY KEY, v text);
		INSERT INTO watched SELECT n, 'old' FROM generate_series(1, 3) n; SELECT pgq_watch_table('watched', 'changes', '{n,v}'), pgq_watch_table('watched', 'topic:t.changed', '{}');
		INSERT INTO watched VALUES (4, 'old')}, 'w');
	run_ok('pg_dump of a watched table', 'pg_dump', '-Fc', '-f', "$dir/watched", $node->connstr('w'));
	restore_ok('a watched table', '-d', new_db('d'), "$dir/watched");
	$works->('a watched table', 'd');
	restore_ok('schema only', '--schema-only', '-d', new_db('d'), "$dir/watched");
	restore_ok('data only', '--data-only', '--disable-triggers', '-d', $node->connstr('d'), "$dir/watched");
	$works->('a watched table, data only', 'd');
	is(state_of('DROP EXTENSION pgq_ext', 'w'), '2BP01', 'watched tables keep the extension');
	sql('SET client_min_messages = error; DROP EXTENSION pgq_ext CASCADE; UPDATE watched SET v = $$x$$', 'w');
	is(sql(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'watched'::regclass}, 'w'), '0', '... and can be written when it is gone');
	sql('CREATE EXTENSION pgq_ext; SELECT pgq_create_queue($$changes$$), pgq_watch_table($$watched$$, $$changes$$)', 'w');
	sql('UPDATE watched SET v = $$y$$', 'w');
	is(sql($jobs, 'w'), '4', '... and are watched again when it is back');
	close_database('w');
}

# ---- a standby ----

$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
my $route = q{SELECT coalesce(string_agg(queue, ' ' ORDER BY queue), '-') FROM pgq_route('x.y')};
my $reader = session($standby);
$node->wait_for_catchup($standby);
is((ask($reader, $route))[0], 'c', 'a standby knows the route');
sql(q{SELECT pgq_bind('x.*', 'a'), pgq_grant_topic('x.#', 'app', '{publish}')});
$node->wait_for_catchup($standby);
is((ask($reader, $route))[0], 'a c', '... and each change of it');
is((sqlstate($standby, $_))[0], '25006', "... but not: $_")
  for q{SELECT pgq_publish('x.y', '1')}, q{SELECT pgq_bind('x.y', 'b')}, q{SELECT pgq_unbind('x.y', 'c')}, q{SELECT pgq_grant_topic('x.y', 'app', '{publish}')}, q{SELECT pgq_revoke_topic('x.#', 'app', '{publish}')};
is((sqlstate($standby, q{SELECT pgq_publish('nothing', '1')}))[0], '25006', '... also if no queue would get a job');
end_session($reader);
$standby->promote;
wait_for($standby, 'NOT pg_is_in_recovery()');
is($standby->safe_psql('postgres', q{SELECT string_agg(queue, ' ' ORDER BY queue) FROM pgq_publish('x.y', '1')}), 'a c', 'after a promotion it publishes');
$standby->stop;

# ---- without the library ----

end_session(delete $sessions{postgres});
sql(q{CREATE TABLE watched (n int PRIMARY KEY); SELECT pgq_watch_table('watched', 'a')});
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->restart;
is(state_of($_), '55000', "without the library preloaded: $_")
  for q{SELECT * FROM pgq_publish('x.y', '1')}, q{SELECT * FROM pgq_route('x.y')}, q{SELECT pgq_bind('x.y', 'b')}, q{SELECT pgq_grant_topic('x.y', 'app', '{publish}')};
is(state_of(q{INSERT INTO watched VALUES (1)}), '55000', '... nor is a watched table written');
is(state_of(q{INSERT INTO pgq_ext.topic_binding (queue_id, pattern) SELECT queue_id, 'x.y' FROM pgq_ext.queue WHERE queue = 'b'}), '', '... the rows can be written');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pgq_ext'");
$node->restart;
is(queues_of('x.y'), 'a b c', '... and count when it is there again');

end_session($_) for values %sessions;
$node->stop;
done_testing();
