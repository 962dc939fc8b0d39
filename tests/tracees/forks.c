/* Bears a process after each checkpoint, and is rolled back to before the birth: then there is no child, nobody has
 * told of one's end, and no page is what parent or child have made of it. It asks its supervisor as image.c does, and
 * prints "forks ok after N". With an argument another child ends meanwhile, and the signal has to tell of that. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
enum { TAKE = 1, BACK, DISCARD, WAIT };
enum { PAGES = 64, SIZE = 4096 };

static char pages[PAGES][SIZE] __attribute__((aligned(SIZE)));

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static void fail(const char *what) {
    printf("%s\n", what);
    fflush(stdout);
    _exit(3);
}

static void fill(int from, int value) {
    for (int page = from; page < PAGES; page += 4)
        memset(pages[page], value, SIZE);
}

/* Whether the end of a child is told, once: the signal is blocked. */
static int is_told(void) {
    struct timespec now = {0, 0};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    return sigtimedwait(&set, 0, &now) == SIGCHLD;
}

int main(int count, char **arguments) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, 0);
    pid_t other = 0;
    if (count > 1 && !(other = syscall(SYS_fork))) {
        ask(WAIT);
        _exit(7);
    }
    for (int kind = 0; kind < 4; kind++)
        fill(kind, 1);
    long round = ask(TAKE);
    for (int page = 0; page < PAGES; page++)
        for (int at = 0; at < SIZE; at++)
            if (pages[page][at] != 1)
                fail("a page is not what it was");
    if (other && round) {
        /* Its end came while the child's was told: of both one signal tells. */
        int status;
        if (!is_told() || is_told())
            fail("of the other child nobody tells");
        if (waitpid(other, &status, 0) != other || WEXITSTATUS(status) != 7)
            fail("the other child is not there");
        other = 0;
    }
    if (!other && (waitpid(-1, 0, WNOHANG) != -1 || errno != ECHILD))
        fail("there is a child");
    if (is_told())
        fail("of a child is told");
    fill(0, 2);
    /* Not the C library's, which would ask for its own number. */
    pid_t child = syscall(SYS_fork);
    if (child < 0)
        fail("fork");
    if (child == 0) {
        fill(1, 3);
        pause();
        _exit(4);
    }
    fill(2, 2);
    ask(BACK);
    ask(DISCARD);
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    printf("forks ok after %ld\n", round);
    return 0;
}
