/* A process that traces its child, until standard input ends. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    char byte;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_NAME, "traced");
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGTRAP);
        for (;;)
            pause();
    }
    waitpid(child, 0, 0);
    ptrace(PTRACE_CONT, child, 0, 0);
    write(1, "ready\n", 6);
    while (read(0, &byte, 1) > 0) {
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    write(1, "over\n", 5);
    return 0;
}
