# What docs/clients.md says of drivers behind pgbouncer: two clients share the one connection of the pool. With what the driver
# does by itself, and with the setting that the page names.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use IPC::Run;
use ClientTest;

start_servers(pool_size => { session => 5, transaction => 1 });
for my $db ('session', 'transaction')
{
	$node->safe_psql('postgres', "CREATE DATABASE $db");
	$node->safe_psql($db, q{CREATE EXTENSION pgq_ext; SELECT pgq_create_queue('mail')});
}

# Each program runs a statement ten times on two connections in turn, and prints "ok" or the error.
my $dir = PostgreSQL::Test::Utils::tempdir_short();
sub program
{
	my ($name, $text) = @_;
	append_to_file("$dir/$name", $text);
	return "$dir/$name";
}

my $psycopg = program('two_psycopg.py', <<'EOP');
import sys, psycopg
options = {"prepare_threshold": None} if sys.argv[2] == "set" else {}
try:
    two = [psycopg.connect(sys.argv[1], autocommit=True, **options) for _ in range(2)]
    for i in range(20):
        two[i % 2].execute("SELECT * FROM pgq_claim(%s, 1)", ("mail",))
    print("ok")
except psycopg.Error as error:
    print(error.sqlstate, error.diag.message_primary)
EOP
my $asyncpg = program('two_asyncpg.py', <<'EOP');
import asyncio, sys, asyncpg
options = {"statement_cache_size": 0} if sys.argv[2] == "set" else {}
async def main():
    two = [await asyncpg.connect(sys.argv[1], **options) for _ in range(2)]
    for i in range(20):
        async with two[i % 2].transaction():
            await two[i % 2].fetch("SELECT * FROM pgq_claim($1, 1)", "mail")
try:
    asyncio.run(main())
    print("ok")
except asyncpg.PostgresError as error:
    print(error.sqlstate, error.args[0].splitlines()[0])
EOP
my $php = program('pdo.php', <<'EOP');
<?php
$url = parse_url($argv[1]);
$options = $argv[2] === 'set' ? [PDO::PGSQL_ATTR_DISABLE_PREPARES => true] : [];
$connect = fn() => new PDO("pgsql:host={$url['host']};port={$url['port']};dbname=" . substr($url['path'], 1), $url['user'], options: $options);
try {
    $two = [$connect(), $connect()];
    for ($i = 0; $i < 20; $i++) {
        $kept[$i] = $two[$i % 2]->prepare('SELECT * FROM pgq_claim(?, 1)');
        $kept[$i]->execute(['mail']);
    }
    print "ok\n";
} catch (PDOException $error) {
    print $error->errorInfo[0] . ' ' . preg_replace('/^ERROR:  /', '', explode("\n", $error->errorInfo[2])[0]) . "\n";
}
EOP
my $js = program('pg.js', <<'EOP');
const { Client } = require('pg');
const name = process.argv[3] === 'set' ? {} : { name: 'claim' };
(async () => {
  const two = [0, 1].map(() => new Client(process.argv[2]));
  for (const client of two) await client.connect();
  for (let i = 0; i < 20; i++) await two[i % 2].query({ ...name, text: 'SELECT * FROM pgq_claim($1, 1)', values: ['mail'] });
  console.log('ok');
})().catch((error) => console.log(error.code, error.message)).finally(() => process.exit());
EOP
my $java = program('Two.java', <<'EOP');
import java.sql.*;
public class Two {
    public static void main(String[] arguments) throws Exception {
        var url = arguments[0].replaceFirst("postgres://(.*)@(.*)[?].*", "jdbc:postgresql://$2?user=$1") + (arguments[1].equals("set") ? "&prepareThreshold=0" : "");
        try {
            Connection[] two = { DriverManager.getConnection(url), DriverManager.getConnection(url) };
            PreparedStatement[] claim = { two[0].prepareStatement("SELECT * FROM pgq_claim(?, 1)"), two[1].prepareStatement("SELECT * FROM pgq_claim(?, 1)") };
            for (int i = 0; i < 20; i++) { claim[i % 2].setString(1, "mail"); claim[i % 2].executeQuery().close(); }
            System.out.println("ok");
        } catch (SQLException e) { System.out.println(e.getSQLState() + " " + e.getMessage().lines().findFirst().get().replaceFirst("ERROR: ", "")); }
    }
}
EOP
my $go = program('two.go', <<'EOP');
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
)

func main() {
	url := os.Args[1]
	if os.Args[2] == "set" {
		url += "&statement_cache_mode=describe"
	}
	ctx := context.Background()
	var two [2]*pgx.Conn
	var err error
	for i := range two {
		if two[i], err = pgx.Connect(ctx, url); err != nil {
			fmt.Println(err)
			return
		}
	}
	for i := 0; i < 20; i++ {
		if _, err = two[i%2].Exec(ctx, "SELECT * FROM pgq_claim($1, 1)", "mail"); err != nil {
			break
		}
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		fmt.Println(pg.Code, pg.Message)
	} else {
		fmt.Println("ok")
	}
}
EOP
@ENV{qw(GOPATH GO111MODULE GOCACHE)} = ('/usr/share/gocode', 'off', "$dir/cache");
build('go', 'build', '-o', "$dir/two", $go);

# asyncpg and pgx tell their names apart within a process, as here; in two processes they meet as the others do.
my @drivers = (
	[ 'psycopg 3', qr/^(42P05 prepared statement "_pg3_\w+" already exists|26000 prepared statement "_pg3_\w+" does not exist)$/, '/usr/bin/python3', $psycopg ],
	[ 'asyncpg', qr/^ok$/, '/usr/bin/python3', $asyncpg ],
	[ 'PDO', qr/^(ok|.*prepared statement "pdo_stmt_.*)$/, '/usr/bin/php', $php ],
	[ 'node, with names', qr/^(42P05|26000) prepared statement "claim" (already exists|does not exist)$/,         'node',             $js ],
	[ 'JDBC', qr/^(42P05|26000) prepared statement "S_\w+" (already exists|does not exist)$/, 'java', '-cp', '/usr/share/java/postgresql.jar', $java ],
	# its names are told apart within a process, as here
	[ 'pgx',  qr/^ok$/, "$dir/two" ]);

for my $driver (@drivers)
{
	my ($name, $error, @command) = @$driver;
	for my $case ([ 'session', 'plain', qr/^ok$/ ], [ 'transaction', 'plain', $error ], [ 'transaction', 'set', qr/^ok$/ ])
	{
		my ($mode, $setting, $expected) = @$case;
		my ($out, $err);
		IPC::Run::run([ @command, database_url($mode, 'two'), $setting ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
		like($out, $expected, "$name in mode $mode, $setting") or diag($err);
		note $out;
	}
}
stop_servers();
