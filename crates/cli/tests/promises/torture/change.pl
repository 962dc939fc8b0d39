# Changes files in every way that can be undone, and checks what it sees of that.
use strict;
use warnings;

sub spew { my ($name, $how, $text) = @_; open my $file, $how, $name or die "$name: $!"; print $file $text; close $file or die }
sub slurp { my ($name) = @_; open my $file, '<', $name or die "$name: $!"; local $/; return scalar <$file> }

open my $log, '>>', 'log' or die;
for my $turn (1 .. 40) {
    my $name = 'f' . $turn % 5;
    spew($name, '>', "turn $turn\n");
    spew($name, '>>', "more\n");
    spew($name, '+<', 'T');
    die "$name: " . slurp($name) if slurp($name) ne "Turn $turn\nmore\n";
    truncate $name, 4 or die;
    die if -s $name != 4;
    unlink "old$turn" if rename $name, "old$turn" or die;
    die if -e $name or -e "old$turn";
    mkdir "d$turn" or die;
    spew("d$turn/a", '>', $turn);
    link "d$turn/a", "d$turn/b" or die;
    die if (stat "d$turn/a")[3] != 2;
    chmod 0600, "d$turn/b" or die;
    utime 1000, 2000 + $turn, "d$turn/b" or die;
    die if (stat "d$turn/a")[9] != 2000 + $turn;
    syswrite $log, "$turn\n" or die;
}
print slurp('log');
