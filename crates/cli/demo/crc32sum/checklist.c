#include "checklist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "crc32.h"

enum { SUM_DIGITS = 8, NAME_AT = SUM_DIGITS + 2 };

/* Splits a line in place. Returns the name, or NULL if the line is not "SUM  NAME". */
static const char *parse(char *line, uint32_t *sum)
{
    line[strcspn(line, "\n")] = '\0';
    if (strspn(line, "0123456789abcdef") != SUM_DIGITS)
        return NULL;
    if (strncmp(line + SUM_DIGITS, "  ", 2) != 0 || line[NAME_AT] == '\0')
        return NULL;
    *sum = (uint32_t)strtoul(line, NULL, 16);
    return line + NAME_AT;
}

unsigned long checklist_verify(FILE *list, const char *list_name)
{
    char line[4096 + NAME_AT];
    unsigned long number, failures = 0;

    for (number = 1; fgets(line, sizeof line, list) != NULL; number++) {
        uint32_t wanted, found;
        const char *name = parse(line, &wanted);

        if (name == NULL) {
            fprintf(stderr, "crc32sum: %s:%lu: not a checksum and a name\n", list_name, number);
            failures++;
        } else if (crc32_file(name, &found) != 0) {
            fprintf(stderr, "crc32sum: %s: %s\n", name, strerror(errno));
            failures++;
        } else {
            printf("%s: %s\n", name, found == wanted ? "OK" : "FAILED");
            failures += found != wanted;
        }
    }
    if (ferror(list)) {
        fprintf(stderr, "crc32sum: %s: %s\n", list_name, strerror(errno));
        failures++;
    }
    return failures;
}
