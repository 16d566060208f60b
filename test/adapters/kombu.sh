#!/bin/bash
# Runs tests of kombu and Celery, of the versions that Debian has, with clients/kombu: the functional tests of transports,
# the unit tests of virtual transports, and the integration tests of Celery (tasks, canvas, inspect), with results in Redis.
# Last line: N passed, N failed.
#
# KOMBU_SOURCE and CELERY_SOURCE can name source trees that are used instead of Debian's source packages.
set -u
. "$(dirname "$0")/foreign.sh"
. script/no_services.sh
no_services redis-server
begin python3-kombu python3-celery python3-psycopg python3-pytest python3-pytest-subtests python3-redis redis-server
kombu=${KOMBU_SOURCE:-} celery=${CELERY_SOURCE:-}
[ -n "$kombu" ] || { source_of kombu && kombu=$(echo "$foreign"/kombu-*); }
[ -n "$celery" ] || { source_of celery && celery=$(echo "$foreign"/celery-*); }
start_server
cp -R "$kombu/t" "$foreign/kombu_t" && cp -R "$celery/t" "$foreign/celery_t" || exit
mkdir "$foreign/kombu" "$foreign/celery" "$foreign/redis"
mv "$foreign/kombu_t" "$foreign/kombu/t"
mv "$foreign/celery_t" "$foreign/celery/t"

# The tests of Celery also read Redis directly.
socket=$foreign/redis/socket
redis-server --port 0 --unixsocket "$socket" --save '' --dir "$foreign/redis" >"$foreign/redis/log" 2>&1 &
redis=$!
trap 'kill $redis; wait $redis; end' EXIT
# The fixture registers a class of tasks without the application, after which no process of the worker starts. And a test waits for
# messages that expire: a message that expires in the broker is gone, as with RabbitMQ, so the worker must fetch it before.
sed -i "s|StrictRedis(host=.*|StrictRedis(unix_socket_path='$socket')|
	s|def celery_class_tasks():|def celery_class_tasks(celery_session_app):|
	s|return \[ClassBasedAutoRetryTask\]|ClassBasedAutoRetryTask.bind(celery_session_app); &|
	s|'broker_url': TEST_BROKER,|&\n        'worker_prefetch_multiplier': 20,|" "$foreign/celery/t/integration/conftest.py"

here=$PWD
passed=0
failed=0
# tests NAME FOLDER ARGUMENT...: runs pytest in the folder, and adds its results
tests()
{
	local name=$1 line good bad
	cd "$foreign/$2" || exit
	PYTHONPATH=$here/clients/kombu:$here/test/adapters/kombu:. timeout 3000 /usr/bin/python3 -m pytest -q -p no:cacheprovider -W ignore --tb=short -o python_classes='test_* Test*' "${@:3}" >"$foreign/out" 2>&1 </dev/null
	cd "$here" || exit
	# After the summary, kombu may still say how many messages it restores.
	line=$(grep -E '[0-9] (passed|failed|errors?)\b.* in [0-9.]+s' "$foreign/out" | tail -n 1)
	good=$(grep -oE '[0-9]+ passed' <<<"$line" | awk '{ n += $1 } END { print n + 0 }')
	bad=$(grep -oE '[0-9]+ (failed|error)' <<<"$line" | awk '{ n += $1 } END { print n + 0 }')
	[[ $line =~ [0-9]\ (passed|failed) ]] || bad=$((bad + 1))
	echo "$name: $line"
	[ "$bad" -eq 0 ] || tail -n 200 "$foreign/out"
	passed=$((passed + good))
	failed=$((failed + bad))
}

tests 'kombu, functional' kombu -p pgq_kombu "$here/test/adapters/kombu/test_functional.py"
tests 'kombu, units' kombu -p instead_of_memory t/unit/transport/virtual t/unit/transport/test_memory.py t/unit/test_simple.py t/unit/test_pidbox.py \
	t/unit/test_common.py t/unit/test_mixins.py
psql -Xqtc 'SELECT pgq_drop_queue(queue, force => true) FROM pgq_ext.queue_status' >/dev/null
export TEST_BROKER=pgq:// TEST_BACKEND=redis+socket://$socket
# These also fail with Redis as the broker, with the versions of Debian 12 (Celery 5.2.6, kombu 5.2.4): a task with `expires` cannot be
# retried, bytes are no JSON, and some chords and groups never end.
fails=(test_task_retried test_group_results_in_chain test_nested_chain_group_lone test_error_propagates_from_chord test_generator
	test_immutable_errback_called_by_chord test_redis_subscribed_channels_leak test_callback_called_by_group test_errback_called_by_group_fail)
tests 'Celery, integration' celery -p pgq_kombu -p celery.contrib.pytest -k "not (${fails[*]/%/ or} none)" \
	t/integration/test_tasks.py t/integration/test_inspect.py t/integration/test_canvas.py
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
