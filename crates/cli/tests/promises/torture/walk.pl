use strict;
use warnings;
use POSIX qw(floor);
use File::Find;
use Data::Dumper;

my %lengths;
find(sub { $lengths{length $_}++ if -f }, '/usr/share/perl5/Debconf');
print join(',', map { "$_=$lengths{$_}" } sort { $a <=> $b } keys %lengths), "\n";
open my $file, '>', 'squares' or die "squares: $!";
print $file floor($_**2), "\n" for 1 .. 200;
close $file;
print -s 'squares', "\n";
