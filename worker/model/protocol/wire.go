package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// ErrUnknownType is wrapped by the error of Decode for a line that is well formed but has a type of a newer
// version. A receiver ignores such a line and goes on.
var ErrUnknownType = errors.New("unknown message type")

// ErrLineTooLong is wrapped by the error for a line of more than MaxLine bytes.
var ErrLineTooLong = fmt.Errorf("line longer than %d bytes", MaxLine)

// The wire names. They are the values of the field "type", which stands first on every line.
const (
	typeHello     = "hello"
	typeReady     = "ready"
	typePrepared  = "prepared"
	typeSteps     = "steps"
	typeMemory    = "memory"
	typeMetrics   = "metrics"
	typeOOM       = "oom"
	typeError     = "error"
	typeAlive     = "alive"
	typeStart     = "start"
	typePoint     = "point"
	typeStep      = "step"
	typeResetPeak = "reset_peak"
	typeStop      = "stop"
)

// Type returns the wire name hello.
func (Hello) Type() string { return typeHello }

// Type returns the wire name ready.
func (Ready) Type() string { return typeReady }

// Type returns the wire name prepared.
func (Prepared) Type() string { return typePrepared }

// Type returns the wire name steps.
func (Steps) Type() string { return typeSteps }

// Type returns the wire name memory.
func (Memory) Type() string { return typeMemory }

// Type returns the wire name metrics.
func (Metrics) Type() string { return typeMetrics }

// Type returns the wire name oom.
func (OOM) Type() string { return typeOOM }

// Type returns the wire name error.
func (Error) Type() string { return typeError }

// Type returns the wire name alive.
func (Alive) Type() string { return typeAlive }

// Type returns the wire name start.
func (Start) Type() string { return typeStart }

// Type returns the wire name point.
func (Point) Type() string { return typePoint }

// Type returns the wire name step.
func (Step) Type() string { return typeStep }

// Type returns the wire name reset_peak.
func (ResetPeak) Type() string { return typeResetPeak }

// Type returns the wire name stop.
func (Stop) Type() string { return typeStop }

// empty returns a new message of a wire name, as a pointer; nil for an unknown name.
func empty(name string) Message {
	switch name {
	case typeHello:
		return new(Hello)
	case typeReady:
		return new(Ready)
	case typePrepared:
		return new(Prepared)
	case typeSteps:
		return new(Steps)
	case typeMemory:
		return new(Memory)
	case typeMetrics:
		return new(Metrics)
	case typeOOM:
		return new(OOM)
	case typeError:
		return new(Error)
	case typeAlive:
		return new(Alive)
	case typeStart:
		return new(Start)
	case typePoint:
		return new(Point)
	case typeStep:
		return new(Step)
	case typeResetPeak:
		return new(ResetPeak)
	case typeStop:
		return new(Stop)
	}
	return nil
}

// Encode returns m as one line, newline included, with the field "type" first. It refuses NaN and infinities,
// which JSON has no text for, a Hello that Decode would refuse, and a line of more than MaxLine bytes
// (ErrLineTooLong).
func Encode(m Message) ([]byte, error) {
	if v := reflect.ValueOf(m); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("encode: no message")
	}
	name := m.Type()
	if empty(name) == nil {
		return nil, fmt.Errorf("encode: %w %q", ErrUnknownType, name)
	}
	if h, ok := asHello(m); ok {
		if err := h.check(); err != nil {
			return nil, fmt.Errorf("encode hello: %w", err)
		}
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	line := make([]byte, 0, len(body)+len(name)+16)
	line = append(line, `{"type":"`...)
	line = append(line, name...)
	line = append(line, '"')
	if len(body) > len(`{}`) {
		line = append(line, ',')
	}
	line = append(line, body[1:]...)
	line = append(line, '\n')
	if len(line) > MaxLine {
		return nil, fmt.Errorf("encode %s: %w: %d", name, ErrLineTooLong, len(line))
	}
	return line, nil
}

// Decode returns the message on a line, as a pointer such as *Hello; the newline at the end may be missing. Fields
// that it does not know are ignored. The error wraps ErrUnknownType for a type of a newer version and
// ErrLineTooLong for a line of more than MaxLine bytes; any other error means that the sender does not speak the
// protocol.
func Decode(line []byte) (Message, error) {
	if len(line) > MaxLine {
		return nil, fmt.Errorf("decode: %w: %d", ErrLineTooLong, len(line))
	}
	var head struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("decode %s: %w", excerpt(line), err)
	}
	if head.Type == nil {
		return nil, fmt.Errorf("decode %s: no field \"type\"", excerpt(line))
	}
	m := empty(*head.Type)
	if m == nil {
		return nil, fmt.Errorf("decode: %w %s", ErrUnknownType, excerpt([]byte(*head.Type)))
	}
	if err := json.Unmarshal(line, m); err != nil {
		return nil, fmt.Errorf("decode %s: %w", *head.Type, err)
	}
	if h, ok := m.(*Hello); ok {
		if err := h.checkLine(line); err != nil {
			return nil, fmt.Errorf("decode hello: %w", err)
		}
	}
	return m, nil
}

// excerpt returns the start of a line, quoted, for a message.
func excerpt(line []byte) string {
	const most = 80
	line = bytes.TrimRight(line, "\r\n")
	if len(line) > most {
		return fmt.Sprintf("%q...", line[:most])
	}
	return fmt.Sprintf("%q", line)
}
