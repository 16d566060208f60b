# Each library is built as a package and installed into an empty directory, without a network. From there the quickstart of its README
# runs as it is written, and its types are checked. The versions are those of the extension.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Cwd qw(getcwd);
use File::Path qw(make_path);
use IPC::Run;
use JSON::PP;
use PgqTest;

my $here  = getcwd();
my $files = "$here/test/clients/packages";
my $node  = pgq_node('main', conf => "listen_addresses = '127.0.0.1'\n");
@ENV{qw(PGHOST PGPORT PGDATABASE PGUSER)} = ('127.0.0.1', $node->port, 'postgres', $node->safe_psql('postgres', 'SELECT current_user'));
my $modules = (split /:/, $ENV{NODE_PATH} // '')[0] // ''; # of npm, if they are there

# run NAME, DIRECTORY, COMMAND...: the command succeeds there. Returns its output.
sub run
{
	my ($name, $directory, @command) = @_;
	my $out = '';
	my $ok = eval { IPC::Run::run(\@command, '<', \undef, '>', \$out, '2>&1', init => sub { chdir $directory or die }, IPC::Run::timeout(5 * $PostgreSQL::Test::Utils::timeout_default)) }; # mypy takes long on a busy machine
	ok($ok, $name) or diag("@command\n$out");
	return $out;
}

sub write_file { my ($file, $text) = @_; open my $out, '>', $file or die "$file: $!"; print $out $text; close $out or die; return }
sub empty_dir { return PostgreSQL::Test::Utils::tempdir_short() }

# A copy of the library in which building may write.
sub copy_of { my ($name) = @_; my $copy = empty_dir() . "/$name"; system('cp', '-R', "$here/clients/$name", $copy) == 0 or die; return $copy }

# The first block of that language in the README of the library.
sub quickstart
{
	my ($name, $language) = @_;
	my $text = slurp_file("$here/clients/$name/README.md");
	my ($code) = $text =~ /^```$language\n(.*?)^```$/ms or die "the README of $name has no $language";
	cmp_ok($code =~ tr/\n//, '<', 15, "$name: the quickstart has fewer than 15 lines");
	cmp_ok($text =~ tr/\n//, '<=', 60, "$name: the README is a screen long");
	return $code;
}

# try_quickstart NAME, DIRECTORY, COMMAND...: the worker sends the mail, and ends on SIGTERM
sub try_quickstart
{
	my ($name, $directory, @command) = @_;
	my $out = '';
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS sent');
	my $run = IPC::Run::start(\@command, '<', \undef, '>', \$out, '2>&1', init => sub { chdir $directory or die }, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
	eval { $run->pump until $out =~ /sent to ann/; 1 } or diag($out);
	$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pgq_ext.job)");
	$run->signal('TERM');
	ok(eval { $run->finish }, "$name: the quickstart ends on SIGTERM") or diag($out);
	is($out, "sent to ann\@example.org\n", '... and has sent the mail, without a complaint');
	is($node->safe_psql('postgres', 'SELECT count(*), min(address) FROM sent'), '1|ann@example.org', '... once');
	return;
}

# ---- versions ----

my ($short) = slurp_file("$here/pgq_ext.control") =~ /^default_version *= *'(.*)'/m;
my %version = (
	'META.json'                       => decode_json(slurp_file("$here/META.json"))->{version},
	'clients/node/package.json'       => decode_json(slurp_file("$here/clients/node/package.json"))->{version},
	'clients/python/pyproject.toml'   => slurp_file("$here/clients/python/pyproject.toml") =~ /^version = "(.*)"$/m,
	'clients/python/pgq_ext/__init__.py' => slurp_file("$here/clients/python/pgq_ext/__init__.py") =~ /^__version__ = "(.*)"$/m);
($version{"clients/$_/CHANGELOG.md"}) = slurp_file("$here/clients/$_/CHANGELOG.md") =~ /^## \[(.*?)\]/m
  for grep { -e "$here/clients/$_/CHANGELOG.md" } map { s{.*/}{}r } glob "$here/clients/*";
is($version{$_}, "$short.0", "$_ has the version of the extension") for sort keys %version;
is(slurp_file("$here/$_"), slurp_file("$here/LICENSE"), "$_ is that of the extension") for map { s{^\Q$here\E/}{}r } glob "$here/clients/*/LICENSE";

# ---- Node ----

# Without npm, the archive is what package.json says; with it, also what npm makes of that.
sub node_package
{
	my ($copy, $app) = @_;
	if (system('npm --version >/dev/null 2>&1') == 0)
	{
		local $ENV{npm_config_cache} = empty_dir();
		run('node: npm packs it', $copy, qw(npm pack --offline --silent));
		run('... and installs the archive', $app, qw(npm install --offline --silent --no-audit --no-fund --legacy-peer-deps), glob "$copy/*.tgz");
		return;
	}
	make_path("$app/node_modules/pgq-ext");
	my $package = decode_json(slurp_file("$copy/package.json"));
	run('node: the files of the package are there', $copy, 'cp', '-R', 'package.json', 'README.md', 'LICENSE', @{ $package->{files} }, "$app/node_modules/pgq-ext");
	return;
}

# The types of pg and Node are those of npm, if they are there; else a few lines take their place.
sub types_for
{
	my ($app) = @_;
	return symlink "$modules/\@types", "$app/node_modules/\@types" if -d "$modules/\@types/pg";
	make_path("$app/node_modules/\@types/$_") for qw(pg node);
	write_file("$app/node_modules/\@types/node/index.d.ts", "declare namespace NodeJS { type Signals = 'SIGTERM' | 'SIGINT' }\n");
	write_file("$app/node_modules/\@types/pg/index.d.ts", <<'TS');
export interface ClientConfig { host?: string; port?: number }
export class Client { query(text: string, values?: unknown[]): Promise<{ rows: any[] }> }
export class Pool extends Client {}
TS
	return;
}

sub check_node
{
	my $app = empty_dir();
	write_file("$app/package.json", '{"private": true}');
	my $code = quickstart('node', 'js');
	node_package(copy_of('node'), $app);
	write_file("$app/quickstart.js", $code);
	my @inside = sort map { s{.*/}{}r } glob "$app/node_modules/pgq-ext/*";
	is("@inside", 'CHANGELOG.md LICENSE README.md index.d.ts index.js lib package.json', '... which has what it needs, and no more');
	try_quickstart('node', $app, 'node', 'quickstart.js');
	types_for($app);
	my $example = slurp_file("$files/every_function.ts");
	write_file("$app/example.ts", $example);
	my $tsc = -x "$modules/.bin/tsc" ? "$modules/.bin/tsc" : 'tsc';
	is(run('node: the types are right', $app, $tsc, qw(--strict --noEmit --target es2022 --module node16 --moduleResolution node16 example.ts)), '', '... without a complaint');
	my @exports = split ' ', run('... and the package can be loaded', $app, 'node', '-p', 'Object.keys(require("pgq-ext")).join(" ")');
	my $types = slurp_file("$app/node_modules/pgq-ext/index.d.ts");
	is(join(' ', grep { my $name = $_; $types !~ /^export (?:class|function) $name\b/m || $example !~ /pgq\.$name\b/ } @exports), '', '... the types and the example have all that it exports');
	is(join(' ', grep { my $name = $_; !grep { $_ eq $name } @exports } $types =~ /^export (?:class|function) (\w+)/mg), '', '... and the types have nothing more');
	return;
}

# ---- Python ----

sub check_python
{
	my ($app, $copy) = (empty_dir(), copy_of('python'));
	my $python = '/usr/bin/python3';
	my $code   = quickstart('python', 'python');
	my @pip    = ($python, '-m', 'pip', '--quiet', '--disable-pip-version-check', '--no-cache-dir');
	run('python: the source archive is built', $copy, $python, '-c', 'from setuptools import build_meta; build_meta.build_sdist("dist")');
	run('... and a wheel from it', $copy, @pip, qw(wheel --no-index --no-build-isolation --no-deps -w dist), glob "$copy/dist/*.tar.gz");
	run('... which is installed', $copy, @pip, qw(install --no-index --no-deps --target), "$app/modules", glob "$copy/dist/*.whl");
	my @inside = sort map { s{.*/}{}r } glob "$app/modules/pgq_ext/*.py* $app/modules/pgq_ext/py.typed";
	my @source = sort map { s{.*/}{}r } glob "$here/clients/python/pgq_ext/*.py* $here/clients/python/pgq_ext/py.typed";
	is("@{[ grep { !/pycache/ } @inside ]}", "@{[ grep { !/pycache/ } @source ]}", '... with all of its modules');
	local $ENV{PYTHONPATH} = "$app/modules";
	write_file("$app/quickstart.py", $code);
	try_quickstart('python', $app, $python, 'quickstart.py');
	my $example = slurp_file("$files/every_function.py");
	write_file("$app/example.py", $example);
	local $ENV{MYPYPATH} = "$app/modules";
	like(run('python: the types are right', $app, $python, qw(-m mypy --strict --no-incremental example.py)), qr/^Success: no issues found in 1 source file$/, '... without a complaint');
	is(run('... and are those of the code', $app, $python, "$files/stubs.py"), "6 stubs compared\n", '... without a difference');
	my @exports = split ' ', run('... the package can be loaded', $app, $python, '-c', 'import pgq_ext; print(*pgq_ext.__all__)');
	is(join(' ', grep { $example !~ /(?:pgq_ext\.|import )$_\b/ } @exports), '', '... and the example has all that it exports');
	return;
}

$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS pgq_ext');
check_node();
check_python();
$node->stop;
done_testing();
