/* A parent that catches the signal which tells of the end of a child, and has it ignored as by default while it waits for one,
 * as bash does. It checks how often its handler runs, and what waits of the signal. `resets ROUNDS`. Prints "resets ok", or what
 * was wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled, last_child;
static const char *name;

static void is(const char *what, long got, long wanted)
{
    if (got == wanted)
        return;
    printf("%s: %s is %ld, not %ld\n", name, what, got, wanted);
    exit(1);
}

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    handled++;
    last_child = info->si_pid;
}

static void catch(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_RESTART | SA_SIGINFO};
    is("to catch", sigaction(SIGCHLD, &action, NULL), 0);
}

static void reset(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL}, before;
    is("to reset", sigaction(SIGCHLD, &action, &before), 0);
    is("what was caught", before.sa_sigaction == handle, 1);
}

static void block(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    is("to block", sigprocmask(how, &set, NULL), 0);
}

static int is_pending(void)
{
    sigset_t set;
    is("to look", sigpending(&set), 0);
    return sigismember(&set, SIGCHLD);
}

/* What may be guessed, in the directory that it is in. */
static void look(void)
{
    struct stat there;
    for (int times = 0; times < 5; times++) {
        is("stat", stat("..", &there), 0);
        is("a directory", S_ISDIR(there.st_mode), 1);
        is("access", access("nothing", F_OK), -1);
        is("its error", errno, ENOENT);
    }
}

static pid_t bear(int status)
{
    pid_t child = fork();
    is("fork", child >= 0, 1);
    if (child == 0) {
        look();
        _exit(status);
    }
    return child;
}

static void collect(pid_t child, int wanted)
{
    int status = -1;
    pid_t found;
    while ((found = waitpid(child, &status, 0)) < 0 && errno == EINTR)
        ;
    is("the child", found, child);
    is("its status", status, wanted << 8);
}

/* The signal comes while it is ignored, and is gone. */
static void unnoticed(int round)
{
    reset();
    look();
    pid_t child = bear(round & 0x7f);
    collect(child, round & 0x7f);
    look();
    catch();
    look();
    is("how often it was told", handled, 0);
}

static void noticed(int round)
{
    look();
    block(SIG_BLOCK);
    pid_t child = bear(round & 0x7f);
    sigset_t none;
    sigemptyset(&none);
    while (handled == 0)
        sigsuspend(&none);
    block(SIG_UNBLOCK);
    is("how often it was told", handled, 1);
    is("of whom", last_child, child);
    collect(child, round & 0x7f);
    look();
}

/* What is blocked is not ignored. */
static void blocked(int round)
{
    block(SIG_BLOCK);
    reset();
    look();
    pid_t child = bear(round & 0x7f);
    collect(child, round & 0x7f);
    is("whether it waits", is_pending(), 1);
    look();
    catch();
    look();
    is("how often it was told before", handled, 0);
    block(SIG_UNBLOCK);
    is("how often it was told", handled, 1);
    is("of whom", last_child, child);
}

/* What waits when it comes to be ignored is gone. */
static void gone(int round)
{
    block(SIG_BLOCK);
    look();
    pid_t child = bear(round & 0x7f);
    siginfo_t info;
    is("to wait", waitid(P_PID, child, &info, WEXITED | WNOWAIT), 0);
    is("who has ended", info.si_pid, child);
    /* It may be seen to have ended before the signal is there. */
    while (!is_pending())
        ;
    look();
    reset();
    is("whether it waits", is_pending(), 0);
    look();
    catch();
    block(SIG_UNBLOCK);
    collect(child, round & 0x7f);
    is("how often it was told", handled, 0);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*way)(int);
    } ways[] = {{"unnoticed", unnoticed}, {"noticed", noticed}, {"blocked", blocked}, {"gone", gone}};
    int rounds = count > 1 ? atoi(arguments[1]) : 3;
    catch();
    for (int round = 0; round < rounds; round++)
        for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
            name = ways[way].name;
            handled = 0;
            ways[way].way(round);
        }
    puts("resets ok");
    return 0;
}
