# shellcheck shell=bash
# Sourced by run.sh: the workload for topics. pgq_ext takes part with several sides:
#
#   pgq_ext        pgq_enqueue, and in the cases "ten" pgq_enqueue_many with ten jobs a call
#   publish        pgq_publish to a topic that one queue wants
#   publish_new    the same; each call has another topic, so that no session remembers it
#   bound, bound_new    the same two in a database with 10,000 bindings of other topics
#   publish_ten    pgq_publish to a topic that ten queues want; this side counts calls

database+=([bound]=bound [bound_new]=bound)
statements+=([bound]=publish [bound_new]=publish_new)

# What does a publish cost beside an enqueue, what do bindings of other topics cost, and what do many queues cost?
run_topics()
{
	local side clients
	fresh_server
	sql -c 'CREATE DATABASE bound' || die 'no database'
	PGDATABASE=bound sql -c 'CREATE EXTENSION pgq_ext' || die 'the extension cannot be created'
	PGDATABASE=bound sql -c "SELECT pgq_create_queue('others')" \
		-c "INSERT INTO pgq_ext.topic_binding (queue_id, pattern)
			SELECT queue_id, (ARRAY['other.' || i || '.#', '#.other_' || i, '*.other_' || i])[1 + i % 3]
			FROM pgq_ext.queue, generate_series(1, 10000) i WHERE queue = 'others'" >/dev/null || die 'no bindings'
	for ((round = 1; round <= rounds; round++)); do
		for clients in "${enqueuers[@]}"; do
			case="client $clients"
			for side in pgq_ext publish bound publish_new bound_new; do
				turn 0 do=enqueue clients="$clients" seconds="$seconds"
			done
			case="ten $clients"
			for side in pgq_ext publish_ten; do
				turn 0 do=enqueue clients="$clients" batch="$([ $side = pgq_ext ] && echo 10 || echo 1)" seconds="$seconds"
			done
		done
	done
}
