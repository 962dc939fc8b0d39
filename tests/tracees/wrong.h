/* What programs share that do something wrong whenever they read less of a file than there is, and that check themselves in rounds.
 * They read less only where a guess is wrong. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int checks_failed;

/* Makes the file that `is_wrong` reads. */
static int open_other(void) {
    static const char bytes[1000];
    int other = open("other", O_CREAT | O_RDWR | O_TRUNC, 0600);
    (void)!write(other, bytes, sizeof bytes);
    return other;
}

static int is_wrong(int other) {
    char part[100];
    int wrong = 0;
    for (int time = 0; time < 3; time++)
        wrong |= pread(other, part, sizeof part, 0) != sizeof part;
    return wrong;
}

static void check(int round, const char *what, long got, long wanted) {
    if (got != wanted) {
        printf("round %d: %s: %ld, not %ld\n", round, what, got, wanted);
        checks_failed++;
    }
}

/* Tells what is so if no check has failed. Returns the status to exit with. */
static int checked(const char *what) {
    if (checks_failed == 0)
        puts(what);
    return checks_failed != 0;
}
