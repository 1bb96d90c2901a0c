/* What the program's own symbol table says about kernels. */
#ifndef SIMT_SYMBOLS_H
#define SIMT_SYMBOLS_H

#include <cstddef>
#include <string>

namespace simt
{

/* "tile<16>" for the function at `entry`; null when the symbol table does not know it. Lives as long as the
 * program. */
const char *function_name(const void *entry);

/* "void tile<16>(float*)"; empty when it is not known. */
std::string function_signature(const void *entry);

/*
 * The last static __shared__ variable that begins at or before an offset in the program's thread-local storage: its
 * name, where it begins, how large it is. An empty name when there is none.
 */
std::string shared_variable_before(size_t offset, size_t *begin, size_t *bytes);

/* Bytes of static __shared__ variables that the function at `entry` declares itself; 0 when nothing is known.
 */
size_t shared_variables_of(const void *entry);

} /* namespace simt */

#endif
