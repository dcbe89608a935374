package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The environment of CUDA.
const (
	visibleEnv = "CUDA_VISIBLE_DEVICES"
	orderEnv   = "CUDA_DEVICE_ORDER"
)

// Visible returns the devices that a CUDA program started with this environment may use, in its order. lookup is
// os.LookupEnv or alike.
//
// A number in CUDA_VISIBLE_DEVICES counts CUDA's devices, not NVML's: the devices that can be opened in the order of
// their bus ids, which is what CUDA does with CUDA_DEVICE_ORDER=PCI_BUS_ID. Without that it puts the fastest first,
// which is the same for equal GPUs; for unequal ones a number is an error, as it may mean another GPU. A GPU divided
// by MIG stands for its first instance.
func Visible(devices []Device, lookup func(string) (string, bool)) ([]Device, error) {
	ordered, orderErr := cudaOrder(devices)
	list, set := lookup(visibleEnv)
	if !set {
		return undivided(devices, ordered, orderErr)
	}
	if order, _ := lookup(orderEnv); order != "PCI_BUS_ID" && orderErr == nil && len(models(ordered)) > 1 {
		orderErr = fmt.Errorf("%s is not PCI_BUS_ID and the GPUs are of different models", orderEnv)
	}
	var found []Device
	for _, word := range strings.Split(list, ",") {
		word = strings.TrimSpace(word)
		if word == "" || word == "-1" || word == "NoDevFiles" { // CUDA stops there, and Slurm says it so
			break
		}
		d, err := pick(word, devices, ordered, orderErr)
		if err != nil {
			return nil, fmt.Errorf("%s=%q: %w", visibleEnv, list, err)
		}
		if slices.ContainsFunc(found, func(f Device) bool { return f.UUID == d.UUID }) {
			return nil, fmt.Errorf("%s=%q: %s is named twice", visibleEnv, list, d.UUID)
		}
		found = append(found, d)
	}
	return found, nil
}

// undivided is what CUDA takes when it is not told: the whole GPUs, or the first instance if all are divided.
func undivided(devices, ordered []Device, orderErr error) ([]Device, error) {
	if orderErr != nil {
		return nil, orderErr
	}
	var whole []Device
	for _, d := range ordered {
		if first(devices, d).UUID == d.UUID {
			whole = append(whole, d)
		}
	}
	if len(whole) == 0 && len(ordered) > 0 {
		return []Device{first(devices, ordered[0])}, nil
	}
	return whole, nil
}

// cudaOrder lists the GPUs that can be opened in the order of their bus ids.
func cudaOrder(devices []Device) ([]Device, error) {
	var gpus []Device
	for _, d := range devices {
		if d.UUID != "" && d.Parent == "" {
			gpus = append(gpus, d)
		}
	}
	if len(gpus) > 1 && slices.ContainsFunc(gpus, func(d Device) bool { return d.PCI == "" }) {
		return nil, errors.New("the order of the GPUs is unknown: one has no bus id")
	}
	slices.SortStableFunc(gpus, func(a, b Device) int { return strings.Compare(a.PCI, b.PCI) })
	return gpus, nil
}

// first is the first MIG instance of a GPU, or the GPU itself.
func first(devices []Device, d Device) Device {
	if i := slices.IndexFunc(devices, func(o Device) bool { return o.Parent != "" && o.Parent == d.UUID }); i >= 0 {
		return devices[i]
	}
	return d
}

// pick finds the device that a word of the list means: a number, or a UUID that may be cut short.
func pick(word string, devices, ordered []Device, orderErr error) (Device, error) {
	if n, err := strconv.Atoi(word); err == nil {
		if orderErr != nil {
			return Device{}, orderErr
		}
		if n < 0 || n >= len(ordered) {
			return Device{}, fmt.Errorf("there is no GPU %d among %d", n, len(ordered))
		}
		return first(devices, ordered[n]), nil
	}
	if !strings.HasPrefix(word, "GPU-") && !strings.HasPrefix(word, "MIG-") {
		return Device{}, fmt.Errorf("%q is neither a number nor a UUID", word)
	}
	var found []Device
	for _, d := range devices {
		if d.UUID == word {
			return first(devices, d), nil
		}
		if strings.HasPrefix(d.UUID, word) {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		return Device{}, fmt.Errorf("%q stands for %d devices", word, len(found))
	}
	return first(devices, found[0]), nil
}
