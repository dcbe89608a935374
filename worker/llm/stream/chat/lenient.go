package chat

import (
	"encoding/json"
	"strconv"
	"strings"
)

// text is a string, or null, or a list of parts with a text, as some servers write content. Anything else is no text
// and no error: a field that is not understood must not cost the frame.
type text string

// UnmarshalJSON never fails.
func (t *text) UnmarshalJSON(raw []byte) error {
	*t = ""
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			*t = text(s)
		}
	case '[':
		var parts []struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(raw, &parts) == nil {
			for _, p := range parts {
				*t += text(p.Text)
			}
		}
	}
	return nil
}

// call is a tool call or a piece of one.
type call struct {
	Function struct {
		Name      text `json:"name"`
		Arguments text `json:"arguments"`
	} `json:"function"`
	Name      text `json:"name"` // of the older function_call
	Arguments text `json:"arguments"`
}

func (c *call) text() string {
	return string(c.Function.Name + c.Function.Arguments + c.Name + c.Arguments)
}

// calls is a list of tool calls, or a single one, as older TGI writes it.
type calls []call

// UnmarshalJSON never fails.
func (c *calls) UnmarshalJSON(raw []byte) error {
	*c = nil
	if len(raw) > 0 && raw[0] == '{' {
		raw = append(append([]byte{'['}, raw...), ']')
	}
	var list []call
	if json.Unmarshal(raw, &list) == nil {
		*c = list
	}
	return nil
}

// failure is the error that a frame or a body tells of: {"error":{...}}, {"error":"text"}, or the flat form.
func (w *wire) failure() *Error {
	if raw := strings.TrimSpace(string(w.Error)); raw != "" && raw != "null" {
		var e struct {
			Message text            `json:"message"`
			Type    text            `json:"type"`
			Code    json.RawMessage `json:"code"`
		}
		if raw[0] != '{' {
			var s string
			if json.Unmarshal([]byte(raw), &s) != nil {
				s = raw
			}
			return &Error{Message: s, Type: w.ErrorType}
		}
		_ = json.Unmarshal([]byte(raw), &e) // an object whose fields are of other kinds is still an error
		if e.Message == "" {
			e.Message = text(raw[:min(len(raw), 1000)])
		}
		return &Error{Message: string(e.Message), Type: string(e.Type), Code: word(e.Code)}
	}
	if w.Object == "error" {
		return &Error{Message: string(w.Message), Type: string(w.Type), Code: word(w.Code)}
	}
	return nil
}

// ParseError reads the body of a response that is no success; nil if it holds no error object.
func ParseError(body []byte) *Error {
	var w wire
	if json.Unmarshal(body, &w) != nil {
		return nil
	}
	if e := w.failure(); e != nil {
		return e
	}
	var detail struct {
		Detail json.RawMessage `json:"detail"` // FastAPI
	}
	if json.Unmarshal(body, &detail) == nil && len(detail.Detail) > 0 {
		return &Error{Message: word(detail.Detail)}
	}
	if w.Message != "" {
		return &Error{Message: string(w.Message), Type: string(w.Type), Code: word(w.Code)}
	}
	return nil
}

// word is a JSON text or number as text; null is empty.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	if _, err := strconv.ParseFloat(string(raw), 64); err == nil {
		return string(raw)
	}
	return string(raw)
}

// numbers gathers the numeric members of some objects.
func numbers(objects ...json.RawMessage) map[string]float64 {
	var out map[string]float64
	for _, raw := range objects {
		var members map[string]json.RawMessage
		if len(raw) == 0 || json.Unmarshal(raw, &members) != nil {
			continue
		}
		for name, m := range members {
			var v *float64
			if json.Unmarshal(m, &v) == nil && v != nil {
				if out == nil {
					out = map[string]float64{}
				}
				out[name] = *v
			}
		}
	}
	return out
}
