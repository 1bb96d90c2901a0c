/* What the program's own symbol table says about kernels. */
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace simt
{

/* This is a static __shared__ variable: where it lies in each worker's thread-local storage. */
struct SharedVariable {
    size_t offset, bytes;
};

/* It has what is known of a function: nothing, if the symbol table does not have it. */
struct Function {
    std::string symbol;
    std::string name, signature;        /* "tile<16>", "void tile<16>(float*)" */
    std::vector<SharedVariable> shared; /* those that it declares itself */
};

const Function &function_at(const void *entry); /* the reference stays valid */

/* Returns the names of a kernel with so many parameters; none where they are not known. */
std::vector<std::string> parameter_names(const std::string &kernel, size_t count);

/* Finds the last static __shared__ variable that begins at or before an offset in thread-local
 * storage. Returns its name ("" when there is none), where it begins, and how large it is. */
std::string shared_variable_before(size_t offset, size_t *begin, size_t *bytes);

} /* namespace simt */
