/* Where values of JSON text (RFC 8259) end, strictly, without building them. Pure. */
#ifndef STATOR_CHAT_JSON_SCAN_H
#define STATOR_CHAT_JSON_SCAN_H

#include <stddef.h>

#define JSON_SCAN_DEPTH 64 /* of objects and arrays in each other */

/* Bytes of blanks, tabs and line ends at p. */
size_t json_scan_blank(const char *p, size_t n);
/* Bytes of the string at p with its quotes, or of the number at p; 0: there is none. */
size_t json_scan_string(const char *p, size_t n);
size_t json_scan_number(const char *p, size_t n);
/* Bytes of the value at p, no blank in front; 0: it is none, is cut off or is nested too deeply. */
size_t json_scan_value(const char *p, size_t n);

#endif
