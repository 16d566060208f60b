# Rights on queues where several sessions, servers or databases take part: claims and results that sessions wait for,
# leases from before a restart, schedules, prepared transactions, dumps, owners. Also attempts of attackers to get
# more rights.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('main', conf => "max_prepared_transactions = 5\n");
sub sql { return scalar $node->safe_psql($_[1] // 'postgres', $_[0]) }
sub as { my ($role, $sql, $db) = @_; return sql("SET ROLE $role; $sql", $db) }
sub denied { my ($role, $sql, $what, $db) = @_; return is((sqlstate($node, "SET ROLE $role; $sql", $db))[0], '42501', $what) }

my $functions = 'pgq_enqueue, pgq_enqueue_many, pgq_claim, pgq_claim_any, pgq_ack, pgq_ack_many, pgq_ack_claim, pgq_ack_next, pgq_fail, pgq_extend, pgq_release,
	pgq_assert_lease, pgq_progress, pgq_checkpoint, pgq_parents, pgq_cancel, pgq_retry, pgq_update, pgq_result, pgq_schedule, pgq_unschedule, pgq_grant, pgq_revoke, pgq_pause_queue, pgq_rename_queue, pgq_drop_queue,
	pgq_set_handler, pgq_drop_handler, pgq_pause_handler, pgq_resume_handler';
sql('CREATE ROLE maker LOGIN; CREATE ROLE worker LOGIN; CREATE ROLE chief LOGIN; CREATE ROLE mallory LOGIN');
sql("GRANT EXECUTE ON FUNCTION $functions TO maker, worker, chief, mallory");
create_queue($node, 'q', q{keep_finished => '1 day', lease_time => '1 day'});
sql(q{SELECT pgq_grant('q', 'maker', '{enqueue}'), pgq_grant('q', 'worker', '{claim}'), pgq_grant('q', 'chief', '{admin}')});

# ---- who waits ----
{
	my $worker = session($node);
	ask($worker, 'SET ROLE worker');
	send_sql($worker, q{SELECT payload FROM pgq_claim('q', wait => '60 s')});
	wait_for($node, q{waiting_claims = 1 FROM pgq_ext.queue_status WHERE queue = 'q'});
	as('chief', q{SELECT pgq_revoke('q', 'worker', '{claim}')});
	as('maker', q{SELECT pgq_enqueue('q', '"secret"')});
	like((reply($worker))[1], qr/permission denied for queue "q"/, 'a claim that waits does not get a job after its right was revoked');
	is(sql(q{SELECT count(*) || ' ' || max(state) || ' ' || max(attempts) FROM pgq_ext.job_status}), '1 ready 0', '... which waits, uncounted');
	as('chief', q{SELECT pgq_grant('q', 'worker', '{claim}')});
	is((ask($worker, q{SELECT payload, pgq_ack(job_id, lease) FROM pgq_claim('q')}))[0], '"secret"|', '... and gets it when it has the right again');
	end_session($worker);
}
{
	my $asker = session($node);
	sql(q{SELECT pgq_grant('q', 'maker', '{inspect}')});
	my $id = as('maker', q{SELECT pgq_enqueue('q', '1')});
	my ($job, $lease) = split /\|/, as('worker', q{SELECT job_id, lease FROM pgq_claim('q')});
	ask($asker, 'SET ROLE maker');
	send_sql($asker, "SELECT state, result FROM pgq_result($id, '60 s')");
	wait_for($node, q{count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'SELECT state, result%' AND wait_event_type = 'Extension'});
	sql(q{SELECT pgq_revoke('q', 'maker', '{inspect}')});
	as('worker', qq{SELECT pgq_ack($job, $lease, '"secret"')});
	is((reply($asker))[0], '', 'who waits for a result learns nothing after his right was revoked');
	end_session($asker);
}

# ---- nothing can be told from how long it takes ----
{
	my $other = session($node);
	my $id = ask($other, q{BEGIN; SELECT pgq_enqueue('q', '1')});
	my $update = sql(q{SELECT pgq_enqueue('q', '1')});
	my $changer = session($node);
	ask($changer, "BEGIN; SELECT pgq_update($update, priority => 3)");
	for my $call ("pgq_cancel(%s)", "pgq_retry(%s)", "pgq_update(%s, priority => 1)", "pgq_fail(%s, 1)", "pgq_result(%s, '60 s')", "pgq_ack_many(ARRAY[%s], ARRAY[1])")
	{
		my @answers = map { as('mallory', "SET statement_timeout = '20 s'; SELECT r FROM " . sprintf($call, $_) . ' AS r') } $id, $update, 9007199254740991;
		is_deeply([ @answers[ 0, 1 ] ], [ @answers[ 2, 2 ] ], "$call: jobs that somebody else is just writing are none");
	}
	for my $s ($other, $changer) { ask($s, 'ROLLBACK'); end_session($s) }
	sql("SELECT pgq_cancel($update)");
}

# ---- leases that were lost, and those from before a restart ----
{
	my $id = as('maker', q{SELECT pgq_enqueue('q', '1')});
	my $lease = sql(q{BEGIN; SET LOCAL ROLE worker; SELECT lease FROM pgq_claim('q'); ROLLBACK});
	wait_for($node, q{attempts = 1 FROM pgq_ext.job_status});
	is(as('mallory', "SELECT pgq_fail($id, $lease, 'mine')"), 'stale', 'a lost attempt is explained by who may answer for the queue only');
	is(as('worker', "SELECT pgq_fail($id, $lease, 'why', retry => false)"), 'dead', '... as its worker');
	is(as('mallory', "SELECT pgq_retry($id)"), 'f', 'a dead letter is no job for others');
	is(as('mallory', "SELECT pgq_cancel($id) IS NULL"), 't', '... and is not deleted by them');
	is(as('chief', "SELECT pgq_cancel($id)"), 'dead', '... but by who administers the queue');

	as('maker', q{SELECT pgq_enqueue('q', '"late"')});
	my ($late, $late_lease) = split /\|/, as('worker', q{SELECT job_id, lease FROM pgq_claim('q')});
	$node->stop('immediate');
	$node->start;
	is((sqlstate($node, "SET ROLE mallory; SELECT pgq_ack($late, $late_lease)"))[0], 'PQ001', 'a late ack, too, is for who may answer');
	is(as('worker', "SELECT pgq_ack($late, $late_lease)"), '', '... as its worker');
}

# ---- guesses ----
{
	as('maker', q{SELECT pgq_enqueue('q', '1')});
	my ($job, $lease) = split /\|/, as('worker', q{SELECT job_id, lease FROM pgq_claim('q')});
	is(as('maker', "SELECT count(*) FROM pgq_ack_many((SELECT array_agg(${job}::bigint) FROM generate_series(-5000, 4999)), (SELECT array_agg($lease + i) FROM generate_series(-5000, 4999) AS i))"),
		'0', 'a producer that guesses leases, the right one among them, has none');
	is(as('maker', "SELECT count(*) FROM generate_series(1, $job + 10) AS id, pgq_result(id)"), '0', '... and ids of jobs, no results');
	is(as('maker', "SELECT count(pgq_cancel(id)) FROM generate_series(1, $job + 10) AS id"), '0', '... nor cancels it any');
	is(as('worker', "SELECT pgq_ack($job, $lease)"), '', 'the job is as it was');
}

# ---- schedules ----
{
	wait_for_scheduler($node);
	as('maker', q{SELECT pgq_schedule('tick', 'every 1 s', 'q')});
	wait_for($node, q{last_job_id IS NOT NULL AND last_error IS NULL FROM pgq_ext.schedule});
	as('chief', q{SELECT pgq_revoke('q', 'maker', '{enqueue}')});
	wait_for($node, q{last_error = 'permission denied for queue "q"' FROM pgq_ext.schedule});
	pass('a schedule whose maker may not enqueue any more says so');
	as('chief', q{SELECT pgq_grant('q', 'maker', '{enqueue}')});
	wait_for($node, q{last_error IS NULL FROM pgq_ext.schedule});
	pass('... and goes on when he may');
	denied('mallory', q{SELECT pgq_schedule('tick', '@yearly', 'q')}, 'who may not enqueue does not change it');
	sql(q{SELECT pgq_create_queue('open')});
	denied('mallory', q{SELECT pgq_schedule('tick', '@yearly', 'open')}, '... nor lead it away');
	denied('mallory', q{SELECT pgq_unschedule('tick')}, '... nor drop it');
	sql(q{CREATE ROLE scheduler LOGIN; GRANT EXECUTE ON FUNCTION pgq_schedule TO scheduler; CREATE SCHEMA scheduler AUTHORIZATION scheduler});
	as('scheduler', q{CREATE FUNCTION scheduler.pgq_enqueue() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER FUNCTION scheduler.pgq_enqueue() DEPENDS ON EXTENSION pgq_ext});
	denied('scheduler', q{SELECT pgq_schedule('own', '@yearly', 'open')}, 'a function of one\'s own is no pgq_enqueue');
	is(as('chief', q{SELECT pgq_unschedule('tick')}), 't', 'but who administers the queue');
}

# ---- prepared ----
{
	create_queue($node, 'p');
	sql(q{BEGIN; SELECT pgq_grant('p', 'maker', '{enqueue}'); PREPARE TRANSACTION 'grant'});
	is(as('worker', q{SELECT count(*) FROM pgq_claim('p')}), '0', 'a queue is open until a prepared grant is committed');
	is((sqlstate($node, q{SET lock_timeout = '1 s'; SELECT pgq_drop_queue('p')}))[0], '55P03', '... and is not dropped before');
	$node->stop('immediate');
	$node->start;
	sql(q{COMMIT PREPARED 'grant'});
	denied('worker', q{SELECT count(*) FROM pgq_claim('p')}, '... by whoever does it');
	sql(q{SELECT pgq_drop_queue('p')});
}

# ---- two at a time ----
{
	create_queue($node, 'both');
	my $one = session($node);
	my $two = session($node);
	ask($one, q{BEGIN; SELECT pgq_grant('both', 'maker', '{enqueue}')});
	send_sql($two, q{SELECT pgq_grant('both', 'worker', '{claim}')});
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE NOT granted});
	ask($one, 'COMMIT');
	is((reply($two))[1], '', 'two who grant the first right at the same time both have');
	is(sql(q{SELECT count(*) FROM pg_class, aclexplode(relacl) a WHERE relname = 'rights_' || (SELECT queue_id FROM pgq_ext.queue WHERE queue = 'both')
		AND a.grantee IN ('maker'::regrole, 'worker'::regrole)}), '2', '... their grants');
	ask($one, q{BEGIN; SELECT pgq_drop_queue('both')});
	send_sql($two, q{SELECT pgq_grant('both', 'chief', '{admin}')});
	wait_for($node, q{count(*) = 1 FROM pg_locks WHERE NOT granted});
	ask($one, 'COMMIT');
	like((reply($two))[1], qr/queue "both" does not exist/, 'a grant waits for who drops the queue, and has none then');
	is(sql(q{SELECT count(*) FROM pg_class WHERE relname LIKE 'rights\\_%'}), '1', '... nor leaves a view');
	end_session($_) for $one, $two;
}

# ---- dumps ----
{
	my $dir = $node->basedir;
	sql(q{SELECT pgq_purge_queue('q'); SELECT pgq_enqueue('q', '"dumped"')});
	my %dumps = (plain => [], 'without-privileges' => ['-x'], custom => [ '-Fc' ], 'without-owners' => ['-O']);
	for my $dump (sort keys %dumps)
	{
		my $db = "restored_$dump" =~ tr/-/_/r;
		$node->command_ok([ 'pg_dump', @{ $dumps{$dump} }, '-f', "$dir/$dump", $node->connstr('postgres') ], "pg_dump, $dump");
		sql("CREATE DATABASE $db");
		$node->command_ok($dump eq 'custom' ? [ 'pg_restore', '-d', $node->connstr($db), "$dir/$dump" ] : [ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/$dump", $node->connstr($db) ], '... restored');
		sql("GRANT EXECUTE ON FUNCTION $functions TO maker, worker, chief, mallory", $db);
		denied('mallory', q{SELECT pgq_claim('q')}, '... is closed', $db);
		if ($dump eq 'without-privileges')
		{
			denied('worker', q{SELECT pgq_claim('q')}, '... to all', $db);
			is(sql(q{SELECT payload FROM pgq_claim('q')}, $db), '"dumped"', '... but the owner');
			sql(q{SELECT pgq_grant('q', 'worker', '{claim}')}, $db);
			is(as('worker', q{SELECT count(*) FROM pgq_claim('q')}, $db), '0', '... who can grant the rights again');
		}
		else
		{
			is(as('worker', q{SELECT payload FROM pgq_claim('q')}, $db), '"dumped"', '... but to who had the right');
			denied('worker', q{SELECT pgq_enqueue('q', '1')}, '... and to that only', $db);
			is(as('chief', q{SELECT pgq_drop_queue('q', force => true)}, $db), 't', '... and can be dropped by its administrator');
		}
		sql("DROP DATABASE $db WITH (FORCE)");
	}
}

# ---- an owner who is no superuser; who plants what it can ----
{
	sql('CREATE ROLE appdba LOGIN SUPERUSER; CREATE DATABASE owned; GRANT CREATE ON DATABASE owned TO mallory');
	sql('SET SESSION AUTHORIZATION appdba; CREATE EXTENSION pgq_ext', 'owned');
	sql("SELECT pgq_create_queue('first')", 'owned');
	sql('ALTER ROLE appdba NOSUPERUSER', 'owned');
	sql("GRANT EXECUTE ON FUNCTION $functions TO maker, worker, chief, mallory; GRANT ALL ON SCHEMA pgq_ext TO mallory; GRANT CREATE ON SCHEMA public TO mallory", 'owned');
	is(sql(q{SET SESSION AUTHORIZATION appdba; SELECT pgq_grant('first', 'chief', '{admin}'), pgq_grant('first', 'worker', '{claim}')}, 'owned'), '|', 'the owner grants rights');
	denied('mallory', q{SELECT pgq_claim('first')}, '... and closes the queue by that', 'owned');
	denied('mallory', q{SELECT pgq_grant('first', 'mallory', '{claim}')}, '... also to who may call pgq_grant', 'owned');

	# What a search path may find instead of the server's own, as whom it runs, and a superuser's trigger that fires always.
	sql(q{CREATE TABLE ran (what text, who text); GRANT INSERT, SELECT ON ran TO PUBLIC;
		CREATE FUNCTION told() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.ran VALUES ('event trigger', current_user); END $$;
		CREATE EVENT TRIGGER told ON ddl_command_end EXECUTE FUNCTION told(); ALTER EVENT TRIGGER told ENABLE ALWAYS}, 'owned');
	my @shadows = (
		(map { "FUNCTION mallory.$_ LANGUAGE plpgsql AS \$\$ BEGIN INSERT INTO public.ran VALUES ('$_', current_user); RETURN NULL; END \$\$" }
			'quote_ident(text) RETURNS text', 'pg_get_userbyid(oid) RETURNS name', 'strpos(text, text) RETURNS int', 'aclexplode(aclitem[]) RETURNS text', 'may_see(int) RETURNS boolean'),
		(map { ("FUNCTION mallory.same(a $_, b $_) RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN INSERT INTO public.ran VALUES ('= of $_', current_user); RETURN true; END \$\$",
			"OPERATOR mallory.= (FUNCTION = mallory.same, LEFTARG = $_, RIGHTARG = $_)") } 'name', 'text', 'oid', 'integer'));
	sql('SET SESSION AUTHORIZATION mallory; CREATE SCHEMA mallory; ' . join('', map { "CREATE $_; " } @shadows) . 'CREATE TABLE mallory.pg_class (relname name); GRANT USAGE ON SCHEMA mallory TO PUBLIC', 'owned');
	sql('TRUNCATE ran', 'owned');
	my $path = 'SET search_path = mallory, public, pg_catalog;';
	sql("SET SESSION AUTHORIZATION chief; $path SELECT public.pgq_grant('first', 'maker', '{enqueue}'); SELECT public.pgq_revoke('first', 'maker', '{enqueue}'); SELECT public.pgq_grant('first', 'public', '{enqueue}');
		SELECT public.pgq_enqueue('first', '1'); SELECT public.pgq_pause_queue('first')", 'owned');
	is(sql(q{SELECT string_agg(DISTINCT what || ' as ' || who, ', ') FROM ran}, 'owned'), 'event trigger as appdba', 'nothing of others runs, but triggers of superusers, who want that, as the owner');
	sql('DROP EVENT TRIGGER told', 'owned');

	# With INSTEAD OF triggers and rules it would be another view; nothing ever asks it for rows.
	my $id = sql(q{SELECT queue_id FROM pgq_ext.queue}, 'owned');
	sql(qq{GRANT TRIGGER ON pgq_ext.rights_$id TO mallory}, 'owned');
	sql(qq{SET SESSION AUTHORIZATION mallory; CREATE FUNCTION mallory.f() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN INSERT INTO public.ran VALUES ('trigger', current_user); RETURN NULL; END \$\$;
		CREATE TRIGGER t INSTEAD OF INSERT OR UPDATE OR DELETE ON pgq_ext.rights_$id FOR EACH ROW EXECUTE FUNCTION mallory.f();
		CREATE VIEW pgq_ext.rights_@{[ $id + 1 ]} AS SELECT 1; CREATE VIEW mallory.over AS SELECT * FROM pgq_ext.rights_@{[ $id + 1 ]}}, 'owned');
	sql(q{TRUNCATE ran; SELECT pgq_create_queue('second'); SET SESSION AUTHORIZATION worker; SELECT pgq_claim('first')}, 'owned');
	is(sql(q{SELECT count(*) FROM ran}, 'owned'), '0', '... nor does a trigger of the view');
	is(sql(qq{SELECT to_regclass('pgq_ext.rights_@{[ $id + 1 ]}') IS NULL}, 'owned'), 't', 'a view that somebody has made for a queue to come goes when it comes');
	is(as('mallory', q{SELECT pgq_enqueue('second', '1') > 0}, 'owned'), 't', '... which is open');

	# Owners.
	sql('REASSIGN OWNED BY appdba TO chief', 'owned');
	is(as('chief', q{SELECT pgq_grant('second', 'worker', '{claim}')}, 'owned'), '', 'a new owner grants');
	denied('appdba', q{SELECT pgq_grant('second', 'worker', '{claim}')}, '... the old one does not', 'owned');
	is(as('worker', q{SELECT count(*) FROM pgq_claim('second')}, 'owned'), '1', 'what had been granted counts');
	sql('DROP OWNED BY worker', 'owned');
	sql("GRANT EXECUTE ON FUNCTION $functions TO worker", 'owned');
	denied('worker', q{SELECT pgq_claim('second')}, '... until DROP OWNED', 'owned');
}

# ---- sessions that are somebody else ----
{
	my $s = session($node);
	ask($s, 'SET SESSION AUTHORIZATION worker');
	is((ask($s, q{SELECT count(*) FROM pgq_claim('q')}))[0], '1', 'a right is the session\'s role\'s');
	ask($s, 'SET SESSION AUTHORIZATION mallory');
	like((ask($s, q{SELECT count(*) FROM pgq_claim('q')}))[1], qr/permission denied/, '... whichever that is now');
	ask($s, 'RESET SESSION AUTHORIZATION; ALTER ROLE mallory SUPERUSER; SET SESSION AUTHORIZATION mallory');
	is((ask($s, q{SELECT count(*) FROM pgq_claim('q')}))[0], '0', 'a superuser may');
	sql('ALTER ROLE mallory NOSUPERUSER');
	like((ask($s, q{SELECT count(*) FROM pgq_claim('q')}))[1], qr/permission denied/, '... until he is none');
	end_session($s);
}

is(sql('SELECT count(*) FROM pgq_check()'), '0', 'memory and tables agree');
$node->stop;
done_testing();
