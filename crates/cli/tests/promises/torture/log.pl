# One process appends to a log, and knows nothing of another, whose line is undone whenever a directory is believed to be missing.
use IO::Handle;
open my $log, '>>', 'log' or die;
defined(my $other = fork) or die;
if (!$other) {
    close $log;
    for (1 .. 40) {
        if (!-e '.') { open my $own, '>>', 'log' or die; syswrite $own, "never\n"; close $own }
        select undef, undef, undef, 0.05;
    }
    exit;
}
for (1 .. 20) { syswrite $log, "line $_\n"; select undef, undef, undef, 0.1 }
waitpid $other, 0;
open my $in, '<', 'log' or die;
print <$in>;
