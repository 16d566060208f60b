-- setup
SELECT pgmq.create(':queue');

-- fill
SELECT count(*) FROM pgmq.send_batch(':queue', array_fill(':payload'::jsonb, ARRAY[:jobs]));

-- count
SELECT count(*) FROM pgmq.q_:queue;

-- vacuum
VACUUM ANALYZE pgq_ext.job;

-- enqueue
SELECT pgmq.send(':queue', $1::jsonb);

-- enqueue_many
SELECT pgmq.send_batch(':queue', $1::jsonb[]);

-- claim
SELECT msg_id, message FROM pgmq.read(':queue', 300, 1);

-- claim_many
SELECT msg_id, message FROM pgmq.read(':queue', 300, :batch);

-- wait
SELECT msg_id, message FROM pgmq.read_with_poll(':queue', 300, 1);

-- ack
SELECT pgmq.delete(':queue', $1::bigint);

-- ack_many
SELECT pgmq.delete(':queue', $1::bigint[]);
