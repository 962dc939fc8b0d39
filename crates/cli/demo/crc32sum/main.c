/* crc32sum [FILE…]   prints the CRC-32 of each file, or of standard input
   crc32sum -c LIST   checks the files in a list that it printed */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "checklist.h"
#include "crc32.h"

static int print(const char *name)
{
    uint32_t sum;

    if (crc32_file(name, &sum) != 0) {
        fprintf(stderr, "crc32sum: %s: %s\n", name, strerror(errno));
        return 1;
    }
    printf("%08lx  %s\n", (unsigned long)sum, name);
    return 0;
}

static int check(const char *name)
{
    FILE *list = fopen(name, "r");
    unsigned long failures;

    if (list == NULL) {
        fprintf(stderr, "crc32sum: %s: %s\n", name, strerror(errno));
        return 1;
    }
    failures = checklist_verify(list, name);
    fclose(list);
    return failures > 0;
}

int main(int count, char **words)
{
    int i, status = 0;

    if (count == 3 && strcmp(words[1], "-c") == 0)
        status = check(words[2]);
    else if (count == 1)
        status = print("-");
    else
        for (i = 1; i < count; i++)
            status |= print(words[i]);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "crc32sum: standard output: %s\n", strerror(errno));
        return 1;
    }
    return status;
}
