# The library for Go, as a user gets it: the modules are packed into the archives of a proxy, and fetched from it.
package GoTest;
use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Test::More;
use Cwd;
use File::Basename;
use File::Find;
use File::Path qw(make_path);
use IO::Compress::Zip qw(zip $ZipError);
use IPC::Run;
use Exporter 'import';

our @EXPORT = qw(go go_modules);

our $module = 'pgq-ext.invalid/go';
my $library = getcwd() . '/clients/go';

# go DIRECTORY, ARGUMENT...: runs the go command there, and returns its output. It dies if the command fails.
sub go
{
	my ($dir, @arguments) = @_;
	my $out = '';
	IPC::Run::run([ 'go', @arguments ], '<', \undef, '>', \$out, '2>&1', init => sub { chdir $dir or die }) or die "go @arguments: $out";
	return $out;
}

sub write_file { my ($name, $text) = @_; make_path(dirname($name)); open my $file, '>', $name or die "$name: $!"; print $file $text; close $file; return }

# Writes the files that a proxy has of a module. A module does not contain the modules below it.
sub pack_module
{
	my ($proxy, $name, $version) = @_;
	my $root = $name eq '' ? $library : "$library/$name";
	my $path = $name eq '' ? $module : "$module/$name";
	my @files;
	find({ no_chdir => 1, wanted => sub {
		$File::Find::prune = 1 if -d && $_ ne $root && -e "$_/go.mod";
		push @files, $_ if -f;
	} }, $root);
	my $dir = "$proxy/" . ($path =~ s/([A-Z])/!\l$1/gr) . '/@v';
	write_file("$dir/$version.info", qq({"Version": "$version"}));
	write_file("$dir/$version.mod", slurp_file("$root/go.mod"));
	write_file("$dir/list", "$version\n");
	zip([ sort @files ] => "$dir/$version.zip", FilterName => sub { s/^\Q$root\E/$path\@$version/ }) or die $ZipError;
	return;
}

# Packs the modules, and fetches them. Returns a directory for GOPATH, in which the fetched ones are, for Debian's drivers
# are packaged in the way of the time before modules; and the environment to use the modules.
sub go_modules
{
	my ($version) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my @names = ('', grep { -e "$library/$_/go.mod" } map { basename($_) } glob "$library/*");
	pack_module("$dir/proxy", $_, $version) for @names;
	my %modules = (GO111MODULE => 'on', GOPROXY => "file://$dir/proxy", GOSUMDB => 'off', GOFLAGS => '-mod=mod -modcacherw', GOTOOLCHAIN => 'local',
		GOMODCACHE => "$dir/cache", GOCACHE => "$ENV{TESTDATADIR}/go");
	local @ENV{keys %modules} = values %modules;
	for my $name (@names)
	{
		my $path = $name eq '' ? $module : "$module/$name";
		go($dir, 'mod', 'download', "$path\@$version");
		make_path(dirname("$dir/src/$path"));
		PostgreSQL::Test::Utils::system_or_bail('cp', '-R', "$dir/cache/$path\@$version", "$dir/src/$path");
	}
	return ($dir, %modules);
}

1;
