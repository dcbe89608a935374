// Package source takes readings of this machine's GPUs: from the helper program cpbench-nvml, else from nvidia-smi, else
// from nowhere. A source that fails is left for the next one, which is written down as data and never costs a run. Use
// it where a session needs to know its devices, their counters before and after a point, or a slow background watch;
// what the readings mean says worker/gpu.
package source
