package source

import (
	"encoding/json"
	"errors"
	"fmt"

	"cpbench/worker/gpu"
)

// maxLine is the longest line in bytes that a helper may send.
const maxLine = 1 << 20

// decodeAnswer reads a line of the helper. Fields that are not known are those of a newer helper and are passed over.
func decodeAnswer(line []byte) (gpu.Answer, error) {
	var a gpu.Answer
	if err := json.Unmarshal(line, &a); err != nil {
		return gpu.Answer{}, fmt.Errorf("line of the helper: %w", err)
	}
	if a.ID <= 0 {
		return gpu.Answer{}, errors.New("line of the helper: no id")
	}
	if a.Sample && a.Reading == nil {
		return gpu.Answer{}, errors.New("line of the helper: a sample without a reading")
	}
	return a, nil
}
