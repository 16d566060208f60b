# A watched table with partitions: writes to the partitioned table and to a partition, partitions that come and go.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use PgqTest;
use Test::More;

my $node = pgq_node('partitions');
my $ask = in_one_session($node);
sub sql { return $ask->($_[0]) }

create_queue($node, 'q');

# The jobs of a statement: op, table, key, old and new.
sub changes_by
{
	my ($statement) = @_;
	sql($statement);
	return sql(q{WITH d AS (DELETE FROM pgq_ext.job RETURNING job_id, payload)
		SELECT string_agg(concat_ws(' ', payload->>'op', payload->>'table', payload->>'key', payload->>'old', '>', payload->>'new'), E'\n' ORDER BY job_id) FROM d});
}

# The columns of the second partition stand in another order, and one was dropped.
sql(q{CREATE TABLE p (id int, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
	CREATE TABLE p2 (gone int, v text, id int NOT NULL, PRIMARY KEY (id)); ALTER TABLE p2 DROP gone; ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20);
	CREATE TABLE sub PARTITION OF p FOR VALUES FROM (20) TO (40) PARTITION BY RANGE (id);
	CREATE TABLE sub1 PARTITION OF sub FOR VALUES FROM (20) TO (30);
	SELECT pgq_watch_table('p', 'q')});
is(sql(q{SELECT string_agg(concat_ws(' ', "table", part_of, key), ', ' ORDER BY "table"::text) FROM pgq_ext.watch WHERE problem IS NULL}), 'p {id}, p1 p {id}, p2 p {id}, sub p {id}, sub1 p {id}', 'all partitions are watched');

is(changes_by(q{INSERT INTO p VALUES (1, 'a'), (11, 'b'), (21, 'c')}), qq(INSERT public.p {"id": 1} > {"v": "a", "id": 1}\nINSERT public.p {"id": 11} > {"v": "b", "id": 11}\nINSERT public.p {"id": 21} > {"v": "c", "id": 21}), 'INSERT into the partitioned table');
is(changes_by(q{UPDATE p SET v = 'd'}) =~ tr/\n//, 2, 'UPDATE of the partitioned table: each row once');
is(changes_by(q{UPDATE p2 SET v = 'e'}), 'UPDATE public.p {"id": 11} {"v": "d", "id": 11} > {"v": "e", "id": 11}', 'UPDATE of a partition');
is(changes_by(q{INSERT INTO sub VALUES (22, 'f')}), 'INSERT public.p {"id": 22} > {"v": "f", "id": 22}', 'INSERT into a partition with partitions');
is(changes_by(q{DELETE FROM sub1 WHERE id = 22}), 'DELETE public.p {"id": 22} {"v": "f", "id": 22} >', 'DELETE from its partition');
is(changes_by(q{UPDATE p SET id = 12 WHERE id = 1}), qq(DELETE public.p {"id": 1} {"v": "d", "id": 1} >\nINSERT public.p {"id": 12} > {"v": "d", "id": 12}), 'a row that moves to another partition');
is(changes_by(q{COPY p FROM PROGRAM 'printf "2\\tx\\n13\\ty\\n"'}), qq(INSERT public.p {"id": 2} > {"v": "x", "id": 2}\nINSERT public.p {"id": 13} > {"v": "y", "id": 13}), 'COPY');
is(changes_by(q{COPY p2 (v, id) FROM PROGRAM 'printf "z\\t14\\n"'}), 'INSERT public.p {"id": 14} > {"v": "z", "id": 14}', 'COPY to a partition');

# A partition that comes later.
sql(q{CREATE TABLE p4 PARTITION OF p FOR VALUES FROM (40) TO (50)});
is(sql(q{SELECT problem FROM pgq_ext.watch WHERE "table" = 'p'::regclass}), 'partition public.p4 has no trigger', 'the view names it');
is(changes_by(q{INSERT INTO p VALUES (41)}), 'INSERT public.p {"id": 41} > {"v": null, "id": 41}', 'a write to the partitioned table enqueues');
is(changes_by(q{INSERT INTO p4 VALUES (42)}), '', '... one to the partition does not');
sql(q{SELECT pgq_watch_table('p', 'q')});
is(changes_by(q{INSERT INTO p4 VALUES (43)}), 'INSERT public.p {"id": 43} > {"v": null, "id": 43}', '... until the table is watched again');

# One that is watched by itself, after the queue was renamed.
sql(q{SELECT pgq_rename_queue('q', 'renamed'); CREATE TABLE p5 PARTITION OF p FOR VALUES FROM (50) TO (60); SELECT pgq_watch_table('p5', 'renamed')});
is(changes_by(q{INSERT INTO p5 VALUES (51)}), 'INSERT public.p {"id": 51} > {"v": null, "id": 51}', 'a partition that is watched after a rename of the queue');
is(sql(q{SELECT problem FROM pgq_ext.watch WHERE "table" = 'p'::regclass}), '', '... is known to be watched');
sql(q{DROP TABLE p5; SELECT pgq_rename_queue('renamed', 'q')});

# One that goes.
sql(q{ALTER TABLE p DETACH PARTITION p4});
is(changes_by(q{INSERT INTO p4 VALUES (44)}), 'INSERT public.p4 {"id": 44} > {"v": null, "id": 44}', 'a detached partition is a watched table');
is(sql(q{SELECT pgq_unwatch_table('p', 'q'), count(*) FROM pgq_ext.watch}), 't|6', 'pgq_unwatch_table');
is(sql(q{SELECT string_agg("table"::text, ' ') FROM pgq_ext.watch}), 'p4', '... drops the triggers of all partitions');
sql(q{DROP TABLE p4});

# Only one partition is watched; then the table, too.
sql(q{SELECT pgq_watch_table('p2', 'q')});
is(changes_by(q{INSERT INTO p2 VALUES ('k', 15)}), 'INSERT public.p2 {"id": 15} > {"v": "k", "id": 15}', 'only a partition is watched');
is(changes_by(q{INSERT INTO p VALUES (16, 'l')}), '', '... it does not see writes to the partitioned table');
my $other = session($node);
ask($other, q{INSERT INTO p2 VALUES ('k', 18)}); sql(q{DELETE FROM pgq_ext.job; SELECT pgq_watch_table('p', 'q')});
ask($other, q{INSERT INTO p2 VALUES ('k', 19)});
is(sql(q{SELECT payload->>'table' FROM pgq_ext.job}), 'public.p', 'then the table: a session that knows the watch of the partition learns of it');
sql(q{DELETE FROM pgq_ext.job});
end_session($other);
sql(q{SELECT pgq_watch_table('p', 'q', columns => '{}')});
is(changes_by(q{INSERT INTO p2 VALUES ('k', 17); UPDATE p SET v = 'm' WHERE id = 17}), 'public.p {"id": 17} >', 'a coalescing watch: one job whichever way is taken');
sql(q{SELECT pgq_unwatch_table('p', 'q')});

# Inheritance without partitions: a statement on the parent reports the rows of its children.
sql(q{CREATE TABLE base (id int PRIMARY KEY); CREATE TABLE derived (extra int) INHERITS (base); INSERT INTO derived VALUES (1, 2); SELECT pgq_watch_table('base', 'q')});
is(changes_by(q{UPDATE base SET id = 3}), qq(DELETE public.base {"id": 1} {"id": 1} >\nINSERT public.base {"id": 3} > {"id": 3}), 'inheritance: by the parent');
is(changes_by(q{UPDATE derived SET id = 4}), '', '... by the child: it has to be watched itself');

$node->stop;
done_testing();
