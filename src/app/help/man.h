/* The manual page, stator(1), made from the tables that the help is made from. */
#ifndef STATOR_APP_MAN_H
#define STATOR_APP_MAN_H

#include "config/config_table.h"

/* `stator help --man`: roff on standard output; returns the exit code. It bears no date: the same binary
 * prints the same page. */
int man_print(void);

/* What stands around a value of this key in a config file: a quotation mark, or nothing. (In help.c.) */
const char *help_quote(const struct config_row *row);

#endif
