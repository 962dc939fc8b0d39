/* What programs share that look at names before what they are about, and at names that are not there: what they are told may be
 * wrong for a while. A part that is told something else than it should be says so, and ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of the part that is done. */
static const char *name;

static void is(const char *what, long got, long wanted)
{
    if (got != wanted) {
        printf("%s: %s is %ld, not %ld (%s)\n", name, what, got, wanted, strerror(errno));
        exit(1);
    }
}

static void look(void)
{
    struct stat told;
    is("stat of /", stat("/", &told), 0);
    is("what is at /none", access("/none", F_OK), -1);
    is("its error", errno, ENOENT);
    is("what is at /etc/passwd", access("/etc/passwd", R_OK), 0);
}
