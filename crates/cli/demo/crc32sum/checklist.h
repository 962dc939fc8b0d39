#ifndef CHECKLIST_H
#define CHECKLIST_H

#include <stdio.h>

/* Reads lines "SUM  NAME" as main prints them, sums each file again and prints "NAME: OK" or
   "NAME: FAILED". Returns how many failed, were unreadable or were no such lines. */
unsigned long checklist_verify(FILE *list, const char *list_name);

#endif
