/* Bears children, has them exit, and collects them, in every order, until so many were born: kin COUNT. Each child exits with a
 * status of its own, and with another one if it is misled: if a name is not there, or less of a file than there is. A parent
 * that is misled bears a child too many. Each child has to be collected once, with its status, and no other. Prints how many were born, and "kin ok". */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "wrong.h"

enum { WRONG = 64, STRANGE = 99, MANY = 3 };

static int other, turn;
static long born;

static int is_misled(void) {
    return access("other", R_OK) != 0 || access("none", F_OK) == 0 || is_wrong(other);
}

/* A parent that is misled has a child that nobody collects. */
static void look(int times) {
    while (times-- > 0)
        if (is_misled() && fork() == 0)
            _exit(STRANGE);
}

static pid_t fork_one(void) {
    born++;
    pid_t child = fork();
    if (child < 0)
        check(turn, "fork", errno, 0);
    return child;
}

/* Looks so often, then exits. */
static void end(int status, int looks) {
    while (looks-- > 0)
        if (is_misled())
            status ^= WRONG;
    _exit(status);
}

static pid_t bear(int status, int looks) {
    pid_t child = fork_one();
    if (child == 0)
        end(status, looks);
    return child;
}

static void collect(pid_t child, int status) {
    int told = -1;
    check(turn, "the child", waitpid(child, &told, 0), child);
    check(turn, "the status", told, status << 8);
}

/* The parent sleeps until the child exits. */
static void wait_first(void) {
    pid_t child = bear(1, 16);
    collect(child, 1);
}

/* The child has exited before its parent asks: nobody has the pipe open any more. */
static void exit_first(void) {
    int ends[2];
    char byte;
    check(turn, "pipe", pipe(ends), 0);
    pid_t child = bear(2, 0);
    close(ends[1]);
    check(turn, "the end of the pipe", read(ends[0], &byte, 1), 0);
    close(ends[0]);
    look(2);
    collect(child, 2);
}

/* The last one born is collected first. */
static void last_first(void) {
    pid_t children[MANY];
    for (int place = 0; place < MANY; place++) {
        children[place] = bear(10 + place, MANY - place);
        look(1);
    }
    for (int place = MANY; place-- > 0;) {
        collect(children[place], 10 + place);
        look(1);
    }
}

/* In the order in which they exit. */
static void any_first(void) {
    pid_t children[MANY];
    int sum = 0;
    for (int place = 0; place < MANY; place++)
        children[place] = bear(1 << place, 2 * place);
    for (int time = 0; time < MANY; time++) {
        int told = -1, found = -1;
        pid_t child = wait(&told);
        for (int place = 0; place < MANY; place++)
            if (children[place] == child)
                found = place;
        check(turn, "one of the children", found >= 0, 1);
        check(turn, "its status", told, found < 0 ? 0 : 1 << found << 8);
        sum += told >> 8;
        look(1);
    }
    check(turn, "all of them", sum, (1 << MANY) - 1);
}

/* The parent asks again and again, and does something else meanwhile. */
static void look_often(void) {
    struct timespec pause = {0, 500000};
    pid_t child = bear(3, 4), found;
    int told = -1;
    while ((found = waitpid(-1, &told, WNOHANG)) == 0) {
        look(1);
        nanosleep(&pause, 0);
    }
    check(turn, "the child", found, child);
    check(turn, "the status", told, 3 << 8);
}

/* The grandchild is nobody's when its parent has exited, and goes on. */
static void orphan(void) {
    int ends[2];
    char bytes[4];
    check(turn, "pipe", pipe(ends), 0);
    born++;
    pid_t child = fork_one();
    if (child == 0) {
        if (fork() == 0) {
            char byte = 'a';
            for (int time = 0; time < 4; time++)
                if (is_misled())
                    byte = 'x';
            check(turn, "a write", write(ends[1], &byte, 1), 1);
            _exit(5);
        }
        end(4, 1);
    }
    close(ends[1]);
    collect(child, 4);
    look(1);
    check(turn, "what the orphan wrote", read(ends[0], bytes, 4), 1);
    check(turn, "its byte", bytes[0], 'a');
    check(turn, "the end of the pipe", read(ends[0], bytes, 4), 0);
    close(ends[0]);
}

/* Each collects its own child, and adds to its status. */
static void generations(void) {
    born += 2;
    pid_t child = fork_one();
    if (child == 0) {
        for (int depth = 0; depth < 2; depth++) {
            int told = -1;
            pid_t next = fork();
            if (next != 0) {
                if (depth == 0)
                    look(2);
                if (waitpid(next, &told, 0) != next || waitpid(-1, 0, WNOHANG) != -1)
                    _exit(STRANGE);
                end(WEXITSTATUS(told) + 1, 1);
            }
        }
        end(20, 2);
    }
    look(2);
    collect(child, 22);
}

/* A child is born while another one has exited and a third goes on. */
static void overlapping(void) {
    pid_t first = bear(30, 0), second = bear(31, 6);
    int told = -1;
    pid_t found = waitpid(first, &told, WNOHANG);
    pid_t third = bear(32, 1);
    if (found == 0)
        collect(first, 30);
    else {
        check(turn, "the first", found, first);
        check(turn, "its status", told, 30 << 8);
    }
    look(1);
    collect(third, 32);
    collect(second, 31);
}

/* Ends by a signal that it sends to itself. */
static void killed(void) {
    int told = -1;
    pid_t child = fork_one();
    if (child == 0) {
        if (!is_misled())
            raise(SIGKILL);
        _exit(STRANGE);
    }
    check(turn, "the child", waitpid(-1, &told, 0), child);
    check(turn, "the signal", told, SIGKILL);
}

int main(int count, char **arguments) {
    static void (*const ways[])(void) = {wait_first, exit_first,  last_first,  any_first, look_often,
                                         orphan,     generations, overlapping, killed};
    long wanted = count > 1 ? atol(arguments[1]) : 100;
    other = open_other();
    for (turn = 0; born < wanted && checks_failed == 0; turn++) {
        look(1);
        ways[turn % (int)(sizeof ways / sizeof *ways)]();
        errno = 0;
        check(turn, "a further child", waitpid(-1, 0, WNOHANG), -1);
        check(turn, "the error without children", errno, ECHILD);
    }
    printf("%ld born\n", born);
    return checked("kin ok");
}
