# JavaScript to C string literals, one for each line; comments and indentation are left out.
# SPDX-License-Identifier: Apache-2.0
s|^ *//.*||
s|^ *||
s| // .*||
/^$/d
s|[\\"]|\\&|g
s|.*|"&\\n"|
