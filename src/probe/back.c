/* Where functions return to that sonde calls in here. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "event/back.h"

SONDE_BACK(sonde_return);
