/* A stand-in for NVIDIA's libnvidia-ml.so.1, for machines without a GPU. The file $GPUS has a line per GPU:
   UUID NAME ENERGY_mJ LOAD_% USED_MiB PID (a PID of 0: no process; an energy of -1: the GPU has no counter). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char uuid[64], name[64]; long long energy; unsigned load; unsigned long long used; unsigned pid; } Gpu;
typedef struct { unsigned pid; unsigned long long memory; unsigned instance, compute; } Process;

static int read_gpus(Gpu *gpus) {
    FILE *file = fopen(getenv("GPUS"), "r");
    int count = 0;
    if (!file) return 0;
    while (count < 8 && fscanf(file, "%63s %63s %lld %u %llu %u", gpus[count].uuid, gpus[count].name, &gpus[count].energy,
                               &gpus[count].load, &gpus[count].used, &gpus[count].pid) == 6)
        count++;
    fclose(file);
    return count;
}
static Gpu gpu_of(void *handle) {
    Gpu gpus[8] = {0};
    read_gpus(gpus);
    return gpus[(long)handle - 1];
}
int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { Gpu gpus[8]; *count = read_gpus(gpus); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { *handle = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetName(void *handle, char *text, unsigned size) { strncpy(text, gpu_of(handle).name, size); return 0; }
int nvmlDeviceGetUUID(void *handle, char *text, unsigned size) { strncpy(text, gpu_of(handle).uuid, size); return 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *energy) {
    long long value = gpu_of(handle).energy;
    *energy = value;
    return value < 0 ? 3 : 0; /* NVML_ERROR_NOT_SUPPORTED */
}
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *rates) { rates[0] = gpu_of(handle).load; rates[1] = 0; return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
    memory[0] = 80ull << 30;
    memory[2] = gpu_of(handle).used << 20;
    memory[1] = memory[0] - memory[2];
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, Process *processes) {
    unsigned pid = gpu_of(handle).pid;
    if (!processes) { *count = pid != 0; return pid ? 7 : 0; /* NVML_ERROR_INSUFFICIENT_SIZE */ }
    *count = pid != 0;
    processes[0] = (Process){pid, gpu_of(handle).used << 20, 0, 0};
    return 0;
}
