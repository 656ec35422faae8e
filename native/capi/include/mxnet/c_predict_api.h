/* Prediction: MXNet keeps these functions in a header of their own. */
#include "c_api.h"
