/* Lends its memory to a child after each checkpoint. The child writes to the memory, and has the parent rolled back to
 * before the birth: then there is no child, nobody has told of one's end, and no page is what the child has made of it.
 * It asks its supervisor as image.c does, and prints "loan ok after N". */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMMAND 0x5bec0000L
enum { TAKE = 1, BACK, DISCARD };
enum { PAGES = 64, SIZE = 4096 };

static char pages[PAGES][SIZE] __attribute__((aligned(SIZE)));

static long ask(long what) { return syscall(SYS_kill, COMMAND, what); }

static void fail(const char *what) {
    printf("%s\n", what);
    fflush(stdout);
    _exit(3);
}

int main(void) {
    sigset_t set;
    struct timespec now = {0, 0};
    int status;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, 0);
    memset(pages, 1, sizeof pages);
    long round = ask(TAKE);
    for (int page = 0; page < PAGES; page++)
        for (int at = 0; at < SIZE; at++)
            if (pages[page][at] != 1)
                fail("a page is not what it was");
    if (waitpid(-1, 0, WNOHANG) != -1 || errno != ECHILD)
        fail("there is a child");
    if (sigtimedwait(&set, 0, &now) != -1)
        fail("of a child is told");
    pid_t child = vfork();
    if (child < 0)
        fail("vfork");
    if (child == 0) {
        for (int page = 0; page < PAGES; page += 2)
            memset(pages[page], 2, SIZE);
        ask(BACK);
        _exit(5);
    }
    if (pages[0][0] != 2 || pages[1][0] != 1)
        fail("the memory is not the child's");
    ask(DISCARD);
    if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5)
        fail("the child has not exited");
    printf("loan ok after %ld\n", round);
    return 0;
}
