/* What the program's own symbol table says about kernels. */
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace simt
{

/* "tile<16>" for the function at `entry`; null when the symbol table does not know it. It stays. */
const char *function_name(const void *entry);

/* "void tile<16>(float*)"; empty when it is not known. */
std::string function_signature(const void *entry);

/* Of a kernel with so many parameters; none where they are not known. */
std::vector<std::string> parameter_names(const std::string &kernel, size_t count);

/* The last static __shared__ variable that begins at or before an offset in thread-local storage:
 * its name, "" when there is none, where it begins, how large it is. */
std::string shared_variable_before(size_t offset, size_t *begin, size_t *bytes);

/* A static __shared__ variable: where it lies in each worker's thread-local storage. */
struct SharedVariable {
    size_t offset, bytes;
};

/* Those that the function at `entry` declares itself, as far as is known. They stay. */
const std::vector<SharedVariable> &shared_variables(const void *entry);

} /* namespace simt */
