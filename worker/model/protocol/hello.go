package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
)

// asHello returns the Hello in m, which may be a value or a pointer.
func asHello(m Message) (Hello, bool) {
	switch h := m.(type) {
	case Hello:
		return h, true
	case *Hello:
		return *h, true
	}
	return Hello{}, false
}

// check reports what keeps h from saying who the rank is.
func (h Hello) check() error {
	var errs []error
	if h.Protocol < 1 {
		errs = append(errs, fmt.Errorf("protocol %d: want 1 or more", h.Protocol))
	}
	if h.Token == "" {
		errs = append(errs, errors.New("token is empty"))
	}
	if h.World < 1 {
		errs = append(errs, fmt.Errorf("world %d: want 1 or more", h.World))
	} else if h.Rank < 0 || h.Rank >= h.World {
		errs = append(errs, fmt.Errorf("rank %d: want 0 to %d", h.Rank, h.World-1))
	}
	return errors.Join(errs...)
}

// checkLine is check for a received line, where a rank that was left out must not pass for rank 0.
func (h Hello) checkLine(line []byte) error {
	var given struct {
		Rank *int `json:"rank"`
	}
	if err := json.Unmarshal(line, &given); err != nil {
		return err
	}
	if given.Rank == nil {
		return errors.New("no field \"rank\"")
	}
	return h.check()
}
