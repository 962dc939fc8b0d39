# Forks, also in children; each writes a file of its own, and its parent reads that.
use strict;
use warnings;
$| = 1;

sub bear {
    my ($name, $depth) = @_;
    my $child = fork();
    die "fork: $!" unless defined $child;
    if (!$child) {
        bear("$name-$depth", $depth - 1) if $depth;
        open(my $file, '>', "file$name") or die;
        print $file "$name at $depth\n";
        close $file;
        exit($depth);
    }
    waitpid($child, 0) == $child or die "no such child";
    ($? >> 8) == $depth or die "ended with $?";
    open(my $file, '<', "file$name") or die "file$name: $!";
    print scalar <$file>;
}

bear("a$_", 2) for 1 .. 3;
my $printed = `echo one; echo two`;
print $printed, -e "filea1" ? "there\n" : "not there\n";
wait() == -1 or die "there is a child";
