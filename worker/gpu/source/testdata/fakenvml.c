/* A stand-in for libnvidia-ml.so.1 with two GPUs. FAKE_NVML says how it misbehaves when it is asked for energy:
   slow, hang, abort, noisy, backwards, or a return code as a number for every reading. The structs are written down
   here from NVIDIA's documentation, so that a wrong layout on the other side shows.
   -DNO_INIT leaves out nvmlInit, -DOLD what drivers before 510 do not have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned u;
typedef unsigned long long ull;
typedef struct { int index; } *dev;
typedef struct { char legacy[16]; u domain, bus, device, id, subsystem; char bus_id[32]; } pci;
typedef struct { ull total, free, used; } memory;
typedef struct { u version; ull total, reserved, free, used; } memory_v2;
typedef struct { u id, scope; long long timestamp, latency; u type; int ret; union { double d; u ui; ull l; } v; } field;
typedef struct { u pid; ull memory; u gpu, compute; } process;

static int devices[2] = {0, 1};
static int is(const char *mode) { const char *m = getenv("FAKE_NVML"); return m && !strcmp(m, mode); }
static int code(void) { const char *m = getenv("FAKE_NVML"); return m ? atoi(m) : 0; }
static ull count(dev d) { static ull n[2]; n[d->index]++; return is("backwards") ? 1000 - n[d->index] : 1000 + n[d->index]; }
static int copy(char *to, u n, const char *text) { snprintf(to, n, "%s", text); return 0; }
#define GET(name, type, value) int name(dev d, type *out) { if (code()) return code(); *out = (value); return 0; }

#ifndef NO_INIT
int nvmlInit_v2(void) { return 0; }
#endif
int nvmlSystemGetDriverVersion(char *s, u n) { return copy(s, n, "550.54.15"); }
int nvmlSystemGetNVMLVersion(char *s, u n) { return copy(s, n, "12.550.54.15"); }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = 12040; return 0; }
int nvmlDeviceGetCount_v2(u *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(u i, dev *d) { *d = (dev)&devices[i]; return 0; }
int nvmlDeviceGetUUID(dev d, char *s, u n) { return copy(s, n, d->index ? "GPU-bbbb" : "GPU-aaaa"); }
int nvmlDeviceGetName(dev d, char *s, u n) { return copy(s, n, "Fake H200"); }
int nvmlDeviceGetVbiosVersion(dev d, char *s, u n) { return copy(s, n, "96.00"); }
int nvmlDeviceGetPciInfo_v3(dev d, pci *p) { return copy(p->bus_id, 32, d->index ? "00000000:3B:00.0" : "00000000:1A:00.0"); }
int nvmlDeviceGetMigMode(dev d, u *now, u *next) { return 3; }
int nvmlDeviceGetEccMode(dev d, u *now, u *next) { *now = *next = 1; return 0; }
int nvmlDeviceGetPersistenceMode(dev d, u *mode) { *mode = 1; return 0; }
int nvmlDeviceGetComputeMode(dev d, u *mode) { *mode = 3; return 0; }
GET(nvmlDeviceGetEnforcedPowerLimit, u, 650000)
GET(nvmlDeviceGetPowerManagementDefaultLimit, u, 700000)
int nvmlDeviceGetMaxClockInfo(dev d, int of, u *mhz) { *mhz = of == 1 ? 1980 : 3201; return 0; }
int nvmlDeviceGetClockInfo(dev d, int of, u *mhz) { *mhz = of == 1 ? 1755 : 3201; return code(); }
int nvmlDeviceGetTemperature(dev d, int sensor, u *c) { *c = 41 + d->index; return code(); }
GET(nvmlDeviceGetPowerUsage, u, 333000)
int nvmlDeviceGetMemoryInfo(dev d, memory *m) { m->total = 150000000000; m->used = 900000000; m->free = m->total - m->used; return code(); }
int nvmlDeviceGetTotalEccErrors(dev d, int type, int counter, ull *n) { *n = type ? 0 : 3; return code(); }
int nvmlDeviceGetUtilizationRates(dev d, u *rates) { rates[0] = 87; rates[1] = 20; return code(); }
int nvmlDeviceGetComputeRunningProcesses_v3(dev d, u *n, process *p) {
  if (d->index || *n < 1) { *n = 0; return code(); }
  *n = 1; p->pid = 4000001; p->memory = 1 << 30; return code();
}
#ifdef OLD
GET(nvmlDeviceGetCurrentClocksThrottleReasons, ull, 0x1)
#else
GET(nvmlDeviceGetCurrentClocksEventReasons, ull, 0x4)
int nvmlDeviceGetMemoryInfo_v2(dev d, memory_v2 *m) {
  if (m->version != (sizeof *m | 2 << 24)) return 25;
  m->total = 150000000000; m->reserved = 600000000; m->used = 5000000; m->free = m->total - m->reserved - m->used;
  return code();
}
int nvmlDeviceGetTotalEnergyConsumption(dev d, ull *mj) {
  if (is("abort")) abort();
  if (is("hang")) for (;;) pause();
  if (is("slow")) usleep(50000);
  if (is("noisy")) { puts("a driver talks"); fflush(stdout); }
  *mj = count(d) * 500000;
  return code();
}
int nvmlDeviceGetFieldValues(dev d, int n, field *f) {
  static ull ns[2];
  if (code()) return code();
  ns[d->index] += 10000000;
  for (; n--; f++) {
    f->latency = 250; f->ret = 0;
    if (f->id == 74) f->type = 3, f->v.l = ns[d->index];
    else if (f->id == 76 || f->id == 269 || f->id == 270) f->type = 3, f->v.l = 0;
    else if (f->id == 186) f->type = 1, f->v.ui = 321500;
    else f->ret = 3;
  }
  return 0;
}
#endif
