/* The command line: finds the command, hands over. */
#include "stator.h"

int main(void) {
    return STATOR_USAGE;
}
