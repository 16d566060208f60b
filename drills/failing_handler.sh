# shellcheck shell=bash
# All calls of a handler fail: the handler is slowed down and named, and goes on when its function is repaired.
drill()
{
	local role settings
	settings=$(ask "SELECT COALESCE(current_setting('pgq_ext.max_handler_workers', true), '0'), to_regclass('pgq_ext.handler') IS NOT NULL")
	[ "${settings#*|}" = t ] || skip 'this version of the extension has no handlers'
	[ "${settings%|*}" != 0 ] || skip 'pgq_ext.max_handler_workers is 0'
	create_queue 'max_attempts => 50'
	role=$(make_role) || bad 'the role of the handler cannot be created'
	sql -v role="$role" >/dev/null <<-'SQL' || bad 'the handler cannot be set'
		CREATE SCHEMA :"queue";
		GRANT USAGE ON SCHEMA :"queue" TO :"role";
		CREATE FUNCTION :"queue".handle(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN RAISE 'it cannot be digested'; END $$;
		SELECT pgq_set_handler(:'queue', (:'queue' || '.handle(pgq_ext.claimed_job)')::regprocedure, workers => 3, run_as => :'role');
		SELECT pgq_enqueue(:'queue', '"once"', max_attempts => 1, priority => 1), count(pgq_enqueue(:'queue', '"often"')) FROM generate_series(1, 24);
	SQL
	until_true 60 "SELECT failures >= 20 FROM pgq_ext.handler WHERE queue = :'queue'" || bad 'the handler does not run'
	is 'the last error of its calls' 'it cannot be digested' "$(ask "SELECT last_error FROM pgq_ext.handler WHERE queue = :'queue'")"
	is 'does the view health name it, and that it fails' true "$(until_true 30 "
		SELECT status = 'warn' AND detail ~ ('queue \"' || :'queue' || '\": \d+ calls have failed in a row')
		FROM pgq_ext.health WHERE \"check\" = 'handler calls'" && echo true)"
	is 'does it have one worker at most' true "$(until_true 30 "SELECT running <= 1 FROM pgq_ext.handler WHERE queue = :'queue'" && echo true)"
	is 'dead letters, their attempts and errors: the job that had one attempt' '1|1|it cannot be digested' "$(ask "
		SELECT count(*), max(attempts), max(substr(last_error, 1, 21)) FROM pgq_ext.dead_job JOIN pgq_ext.queue USING (queue_id) WHERE queue = :'queue'")"
	sql >/dev/null <<-'SQL' || bad 'the function cannot be repaired'
		CREATE OR REPLACE FUNCTION :"queue".handle(job pgq_ext.claimed_job) RETURNS void LANGUAGE plpgsql AS $$ BEGIN END $$;
		SELECT pgq_redrive(:'queue');
	SQL
	until_true 90 "SELECT count(*) = 0 FROM pgq_ext.job JOIN pgq_ext.queue USING (queue_id) WHERE queue = :'queue'" ||
		bad "the repaired handler does not go on: $(jobs_left) jobs are left"
	is 'jobs that the repaired handler has done' 25 "$(ask "SELECT acked FROM pgq_ext.queue_stats WHERE queue = :'queue'")"
	is 'does the view health still name it' f "$(ask "SELECT detail ~ :'queue' FROM pgq_ext.health WHERE \"check\" = 'handler calls'")"
	good 'a handler that fails is slowed down and named, and goes on when it is repaired'
}

# The role of the handler: the one that is connected, or, as handlers are not to run as a superuser, a new one. Prints its name.
make_role()
{
	local super
	super=$(ask 'SELECT rolsuper FROM pg_roles WHERE rolname = current_user') || return 1
	if [ "$super" = f ]; then
		ask 'SELECT current_user'
	else
		sql >/dev/null <<-'SQL' && echo "$queue"
			CREATE ROLE :"queue" LOGIN;
			GRANT EXECUTE ON FUNCTION pgq_claim, pgq_ack TO :"queue";
		SQL
	fi
}
