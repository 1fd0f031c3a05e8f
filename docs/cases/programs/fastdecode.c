#include <stdint.h>
#include <string.h>

/* A row begins with its width, which nobody checks. */
int decode_row(const unsigned char *src, unsigned char *out, int n) {
  int32_t w;
  memcpy(&w, src, sizeof w);
  for (int k = 0; k < n; k++)
    out[k] = src[(long)k * w + (long)w * 4];
  return 0;
}
