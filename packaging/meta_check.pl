#!/usr/bin/perl
# Is this zip what PGXN takes? META.json by the PGXN Meta Spec 1.0.0 (https://pgxn.org/spec/), and what it names in the zip.
#
#   packaging/meta_check.pl pgq_ext-0.2.0.zip
use strict;
use warnings;
use File::Basename;
use JSON::PP;

my $zip = shift or die "usage: $0 ZIP\n";
my @wrong;

# wrong(CONDITION, WHAT): CONDITION does not hold
sub wrong
{
	my ($holds, $what) = @_;
	push @wrong, $what if !$holds;
	return;
}

sub of_zip
{
	open my $pipe, '-|', 'unzip', @_ or die "unzip: $!\n";
	local $/ = undef;
	my $text = <$pipe>;
	close $pipe or die "unzip @_ failed\n";
	return $text;
}

# ---- what a value may be ----

my $semver  = qr/(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z][0-9A-Za-z.-]*)?/;
my $license = join '|', qw(agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3 gpl_1 gpl_2 gpl_3
	lgpl_2_1 lgpl_3_0 mit mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0 ssleay sun zlib
	open_source restricted unrestricted unknown);

sub string { return defined $_[0] && !ref $_[0] && length $_[0] }
sub map_of { my ($v, $one) = @_; return ref $v eq 'HASH' && !grep { !$one->($v->{$_}, $_) } keys %$v }
sub list_of { my ($v, $one) = @_; return !grep { !$one->($_) } ref $v eq 'ARRAY' ? @$v : $v }
sub term { return string($_[0]) && $_[0] =~ /^[^\/\\\s[:cntrl:]]{2,}$/ }
sub tag { return string($_[0]) && $_[0] =~ /^[^\/\\[:cntrl:]]{1,255}$/ }
sub version { return string($_[0]) && $_[0] =~ /^$semver$/ }
sub range { return string($_[0]) && !grep { !/^\s*(?:(?:[<>]=?|[!=]=)\s*)?(?:0|$semver)\s*$/ } split /,/, $_[0] }
sub path { return string($_[0]) && $_[0] !~ m{^/|\\|(^|/)\.\.(/|$)} }

# named(MAP, NAME => RULE...): has no other keys
sub named
{
	my ($v, %rule) = @_;
	return map_of($v, sub { $_[1] =~ /^x_/i || $rule{ $_[1] } && $rule{ $_[1] }->($_[0]) });
}

my $relations = sub { my $v = shift; return named($v, map { $_ => sub { map_of($_[0], \&range) } } qw(requires recommends suggests conflicts)) };
my $provided = sub {
	my ($v, $name) = @_;
	return term($name) && named($v, file => \&path, version => \&version, abstract => \&string, docfile => \&path) && $v->{file} && $v->{version};
};

my %required = (
	abstract    => \&string,
	maintainer  => sub { list_of($_[0], \&string) },
	license     => sub { ref $_[0] eq 'HASH' ? map_of($_[0], sub { $_[0] =~ /^\w+:/ }) : list_of($_[0], sub { string($_[0]) && $_[0] =~ /^(?:$license)$/ }) },
	provides    => sub { map_of($_[0], $provided) && keys %{ $_[0] } },
	name        => \&term,
	version     => \&version,
	'meta-spec' => sub { named($_[0], version => sub { string($_[0]) && $_[0] =~ /^1\.0\.\d+$/ }, url => \&string) && $_[0]->{version} },
);
my %optional = (
	description    => \&string,
	generated_by   => \&string,
	tags           => sub { list_of($_[0], \&tag) },
	no_index       => sub { named($_[0], map { $_ => sub { list_of($_[0], \&path) } } qw(file directory)) },
	prereqs        => sub { named($_[0], map { $_ => $relations } qw(configure build test runtime develop)) },
	release_status => sub { string($_[0]) && $_[0] =~ /^(?:stable|testing|unstable)$/ },
	resources      => sub { ref $_[0] eq 'HASH' },
);

# ---- the zip ----

my %file = map { $_ => 1 } split /\n/, of_zip('-Z1', $zip);
my ($root) = fileparse($zip, '.zip');
wrong($_ eq "$root/" || /^\Q$root\E\//, "$_: not below $root/") for sort keys %file;
wrong($file{"$root/META.json"}, "no $root/META.json");
die map { "$_\n" } @wrong if @wrong;

my $meta = decode_json(of_zip('-p', $zip, "$root/META.json"));
wrong(exists $meta->{$_}, "$_: missing") for sort keys %required;
for my $key (sort grep { !/^x_/i } keys %$meta)
{
	my $rule = $required{$key} || $optional{$key};
	wrong($rule, "$key: not a key of the specification");
	wrong($rule->($meta->{$key}), "$key: invalid") if $rule;
}
die map { "META.json: $_\n" } @wrong if @wrong;

# ---- what it says of the zip ----

wrong("$meta->{name}-$meta->{version}" eq $root, 'name and version are not those of the zip');
my $control = of_zip('-p', $zip, "$root/pgq_ext.control");
my ($default) = $control =~ /^default_version *= *'(.*)'/m;
for my $name (sort keys %{ $meta->{provides} })
{
	my $extension = $meta->{provides}{$name};
	wrong($file{"$root/$_"}, "provides $name: no $_ in the zip") for grep { defined } @$extension{qw(file docfile)};
	wrong($extension->{file} eq "$name--$default.sql", "provides $name: $extension->{file} does not install version $default");
	wrong($extension->{version} eq "$default.0" && $meta->{version} eq "$default.0", "provides $name: another version than pgq_ext.control");
}
die map { "META.json: $_\n" } @wrong if @wrong;
