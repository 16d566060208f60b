# Functions and operators that a role creates in the schema of an extension, to be run instead of the server's own: for
# every name that scripts use, with argument types that match better. Each such function logs the role as which it runs.
package ShadowTest;
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Exporter 'import';

our @EXPORT = qw(names_in plant_shadows clean_of_shadows);

# Returns the names that scripts call, also in strings, which may be run: ([functions], [operators]), as the server
# has them.
sub names_in
{
	my ($node, @texts) = @_;
	my (%words, %signs);
	for my $text (@texts)
	{
		$text =~ s/--.*//g;
		$words{lc $1}++ while $text =~ /\b([A-Za-z_]\w*)\s*\(/g;
		$signs{$1}++ while $text =~ m{([-+*/<>=~!\@#%^&|]+)}g;
	}
	my $list = sub { join ', ', map { "'$_'" } sort @_ };
	my $known = sub { my ($sql) = @_; return [ split /\n/, $node->safe_psql('postgres', $sql) ] };
	return ($known->("SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname IN (" . $list->(keys %words) . ') ORDER BY 1'),
		$known->("SELECT DISTINCT oprname FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprkind = 'b' AND oprname IN (" . $list->(keys %signs) . ') ORDER BY 1'));
}

# Creates them as that role, in schema public.
sub plant_shadows
{
	my ($node, $db, $role, $functions, $operators) = @_;
	my $names = join ', ', map { "'$_'" } @$functions;
	my $signs = join ', ', map { "'$_'" } @$operators;
	return $node->safe_psql($db, qq{
		SET client_min_messages = error;
		CREATE SCHEMA IF NOT EXISTS trap AUTHORIZATION $role;
		GRANT USAGE ON SCHEMA trap TO PUBLIC;
		SET SESSION AUTHORIZATION $role;
		SET check_function_bodies = off; SET search_path = pg_catalog;
		CREATE FUNCTION trap.spring(what text) RETURNS text LANGUAGE plpgsql AS \$\$ BEGIN RAISE LOG 'planted: % runs as %', what, current_user; RETURN what; END \$\$;
		DO \$do\$
		DECLARE
			types text[] := '{text,int4,int8,oid,jsonb,timestamptz,bool,name,regclass}';
			call record;
		BEGIN
			FOR call IN
				SELECT f AS name, s AS arguments FROM unnest(ARRAY[$names]::text[]) f, LATERAL (
					SELECT a FROM unnest(types) a UNION SELECT concat_ws(', ', a, b) FROM unnest(types) a, unnest(types) b
					UNION SELECT 'text, ' || concat_ws(', ', a, b) FROM unnest(types) a, unnest(types) b UNION SELECT 'text' || repeat(', text', n) FROM generate_series(3, 7) n
					UNION SELECT 'anyelement' UNION SELECT 'text, anyelement' UNION SELECT 'text, VARIADIC text[]' UNION SELECT 'jsonb, VARIADIC text[]') x (s)
			LOOP
				EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS text LANGUAGE plpgsql AS \$f\$ BEGIN RETURN trap.spring(%L); END \$f\$', call.name, call.arguments, call.name || '(' || call.arguments || ')');
			END LOOP;
			FOR call IN SELECT a AS left_type, b AS right_type FROM unnest(types || '{interval,numeric,float8,int2,"text[]","int4[]",regproc,"\\"char\\""}'::text[]) a,
				unnest(types || '{interval,numeric,float8,int2,"text[]","int4[]",regproc,"\\"char\\""}'::text[]) b
			LOOP
				EXECUTE format('CREATE FUNCTION trap.both(a %s, b %s) RETURNS boolean LANGUAGE plpgsql AS \$f\$ BEGIN PERFORM trap.spring(%L); RETURN true; END \$f\$', call.left_type, call.right_type,
					'operator of ' || call.left_type || ' and ' || call.right_type);
				EXECUTE (SELECT string_agg(format('CREATE OPERATOR public.%s (FUNCTION = trap.both, LEFTARG = %s, RIGHTARG = %s)', o, call.left_type, call.right_type), ';') FROM unnest(ARRAY[$signs]::text[]) o);
			END LOOP;
		END \$do\$});
}

# Checks that none of them has run since that place in the log.
sub clean_of_shadows
{
	my ($node, $since, $what) = @_;
	my %ran;
	$ran{$1}++ while substr(slurp_file($node->logfile), $since) =~ /planted: (.*)/g;
	return is(join("\n", sort keys %ran), '', $what);
}

1;
