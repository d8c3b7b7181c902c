/* C++, Rust and D names as people write them. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SYMBOL_DEMANGLE_H
#define SYMBOL_DEMANGLE_H

#include <stdbool.h>

/* The readable form, owned by the caller; NULL when name is not mangled. With parameters false, a function's
 * parameter list is left out. Compiler suffixes (".cold", ".part.0", ".isra.1") are dropped, so that one
 * function has one name. */
char *demangle(const char *name, bool parameters);

/* Like demangle(), but always a string: a copy of name (without such suffixes) when it is not mangled. */
char *demangle_or_copy(const char *name, bool parameters);

#endif
