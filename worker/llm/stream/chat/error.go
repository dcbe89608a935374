package chat

import (
	"bytes"
	"encoding/json"
)

// longest is how much of an error object without a message is kept in place of one.
const longest = 1000

// ParseError reads the body of a response that is no success; nil if it holds no error that is understood.
func ParseError(body []byte) *Error {
	body = bytes.Trim(body, blank)
	if len(body) == 0 || body[0] != '{' || !json.Valid(body) {
		return nil
	}
	if e := failure(body); e != nil {
		return e
	}
	e := flat(body)
	members(body, func(name, value []byte) {
		if string(name) == "detail" && e.Message == "" { // FastAPI
			e.Message = word(value)
		}
	})
	if e.Message == "" {
		return nil
	}
	return e
}

// failure is the error that an object tells of: {"error":{...}}, TGI's {"error":"text"}, or the flat form with
// "object":"error" of SGLang and older vLLM. Nil if it tells of none.
func failure(raw []byte) *Error {
	var object, kind string
	var fault []byte
	members(raw, func(name, value []byte) {
		switch string(name) {
		case "error":
			fault = value
		case "error_type":
			kind = text(value)
		case "object":
			object = text(value)
		}
	})
	switch {
	case len(fault) > 0 && fault[0] == '{':
		e := flat(fault)
		if e.Message == "" {
			e.Message = string(fault[:min(len(fault), longest)])
		}
		return e
	case len(fault) > 0 && string(fault) != "null":
		return &Error{Message: word(fault), Type: kind}
	case object == "error":
		return flat(raw)
	}
	return nil
}

// flat reads the members of an error object.
func flat(raw []byte) *Error {
	var e Error
	members(raw, func(name, value []byte) {
		switch string(name) {
		case "message":
			e.Message = text(value)
		case "type":
			e.Type = text(value)
		case "code":
			e.Code = word(value)
		}
	})
	return &e
}

// word is a text, or any other value as it is written; null is empty.
func word(raw []byte) string {
	switch {
	case string(raw) == "null":
		return ""
	case len(raw) > 0 && raw[0] == '"':
		return text(raw)
	}
	return string(raw[:min(len(raw), longest)])
}
