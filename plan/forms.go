package plan

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// This file holds the forms in which single values stand in a spec, and what the struct tags say about them.

// unbuilt names the keys of the format that this version does not act on, and says so instead of ignoring them.
var unbuilt = map[string]string{
	"reference":               "rows are not yet compared with reference values",
	"workload.metrics.better": "figures are not yet compared",
}

// elsewhere names keys that stand at another place of the format: the key there, and what to write. Comparisons of LLM
// servers that were written for other programs use them.
var elsewhere = map[string][2]string{
	"workload.url":     {"workload.server", "write `server: {url: \"http://127.0.0.1:8000\"}`"},
	"workload.repeats": {"repeats", "it stands at the top of the spec, beside workload"},
}

// structFields maps the YAML names of a struct to its fields, those of embedded structs as well, and lists them in order.
func structFields(t reflect.Type) (map[string][]int, []string) {
	fields, names := map[string][]int{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); name != "" {
			fields[name] = f.Index
			names = append(names, name)
		}
	}
	return fields, names
}

// rules are what a field's jsonschema tag says: the one source for the checks here and for the published schema.
type rules struct {
	required bool
	enum     []string
	min, max *int64
	def      string
}

func rulesOf(f reflect.StructField) rules {
	var r rules
	for part := range strings.SplitSeq(f.Tag.Get("jsonschema"), ",") {
		key, val, _ := strings.Cut(part, "=")
		switch key {
		case "required":
			r.required = true
		case "enum":
			r.enum = append(r.enum, val)
		case "default":
			r.def = val
		case "minimum", "maximum":
			n, err := strconv.ParseInt(val, 10, 64)
			if err != nil {
				panic("plan: bad tag on " + f.Name)
			}
			if key == "minimum" {
				r.min = &n
			} else {
				r.max = &n
			}
		}
	}
	return r
}

// setDefaults fills the fields of a struct that have a default in their tag.
func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		f, field := v.Type().Field(i), v.Field(i)
		if f.Tag.Get("yaml") == "" {
			continue
		}
		def := rulesOf(f).def
		switch {
		case field.Kind() == reflect.Struct:
			setDefaults(field)
		case def == "":
		case field.Type() == reflect.TypeFor[Duration]():
			d, err := ParseDuration(def)
			if err != nil {
				panic(err)
			}
			field.SetInt(int64(d))
		case field.Type() == reflect.TypeFor[Percent]():
			p, err := parsePercent(def)
			if err != nil {
				panic(err)
			}
			field.SetFloat(float64(p))
		case field.Type() == reflect.TypeFor[AutoInt]():
		case field.Kind() == reflect.String:
			field.SetString(def)
		default:
			n, err := strconv.ParseInt(def, 10, 64)
			if err != nil {
				panic(err)
			}
			field.SetInt(n)
		}
	}
}

func (m *AxisMap) decodeNode(d *decoder, n *yaml.Node, path string) {
	d.pairs(n, path, func(key, val *yaml.Node, at string) {
		var values []string
		d.decode(val, reflect.ValueOf(&values).Elem(), at)
		d.pos[at] = Pos{key.Line, key.Column}
		*m = append(*m, AxisValues{key.Value, values})
	})
}

func (m *ParamMap) decodeNode(d *decoder, n *yaml.Node, path string) {
	d.pairs(n, path, func(key, val *yaml.Node, at string) {
		if text, ok := d.scalar(val, at); ok {
			*m = append(*m, Param{key.Value, text})
		}
	})
}

func (m *ExprMap) decodeNode(d *decoder, n *yaml.Node, path string) {
	d.pairs(n, path, func(key, val *yaml.Node, at string) {
		if text, ok := d.scalar(val, at); ok {
			*m = append(*m, NamedExpr{key.Value, text})
		}
	})
}

// never names the durations that may be 0, which means that what they wait for does not happen.
var never = map[string]bool{
	"workload.heartbeat": true, "workload.metrics_settle": true, "workload.mixed.delay": true, "workload.timeouts.connect": true,
	"workload.timeouts.first_byte": true, "workload.timeouts.idle": true, "workload.timeouts.total": true,
}

func (v *Duration) decodeNode(d *decoder, n *yaml.Node, path string) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	if never[path] && (text == "0" || text == "0s") {
		*v = 0
		return
	}
	dur, err := ParseDuration(text)
	if err != nil {
		d.at(path, "", "%s%v", label(path), err)
		return
	}
	*v = Duration(dur)
}

// MarshalText writes the duration as it may stand in a spec.
func (v Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(v).String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (v *Duration) UnmarshalText(b []byte) error {
	if string(b) == "0s" { // one that has no meaning for the kind, or that may be 0
		*v = 0
		return nil
	}
	d, err := ParseDuration(string(b))
	*v = Duration(d)
	return err
}

// ParseDuration reads `90s`, `20m`, `1h30m`, `2d`, `HH:MM:SS` or `D-HH:MM:SS`. It must be positive.
func ParseDuration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration: write it as 90s, 20m, 1h30m, 2d or HH:MM:SS", text)
	days, rest := "0", text
	switch {
	case strings.Contains(text, "-") && strings.Contains(text, ":"):
		days, rest, _ = strings.Cut(text, "-")
	case strings.HasSuffix(text, "d"):
		days, rest = strings.TrimSuffix(text, "d"), "0s"
	}
	if strings.Contains(rest, ":") {
		parts := strings.Split(rest, ":")
		if len(parts) != 3 {
			return 0, bad
		}
		rest = parts[0] + "h" + parts[1] + "m" + parts[2] + "s"
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, bad
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, bad
	}
	d += time.Duration(n) * 24 * time.Hour
	if d <= 0 || d > 366*24*time.Hour {
		return 0, fmt.Errorf("%q is out of range: a duration is more than 0 and at most a year", text)
	}
	return d, nil
}

func (p *Percent) decodeNode(d *decoder, n *yaml.Node, path string) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	v, err := parsePercent(text)
	if err != nil {
		d.at(path, "", "%s%v", label(path), err)
		return
	}
	*p = v
}

func parsePercent(text string) (Percent, error) {
	num, scale := text, 1.0
	if cut, ok := strings.CutSuffix(text, "%"); ok {
		num, scale = strings.TrimSpace(cut), 100
	}
	f, err := strconv.ParseFloat(num, 64)
	if err != nil || math.IsNaN(f) || f < 0 || f/scale >= 1 {
		return 0, fmt.Errorf("%q is not a share: write it as 1%% or 0.01, below 100 %%", text)
	}
	return Percent(f / scale), nil
}

func (a *AutoInt) decodeNode(d *decoder, n *yaml.Node, path string) {
	text, ok := d.scalar(n, path)
	if !ok || text == "auto" {
		return
	}
	i, err := strconv.Atoi(text)
	if err != nil || i < 1 {
		d.at(path, "", "%s%q is neither auto nor a number of at least 1", label(path), text)
		return
	}
	*a = AutoInt(i)
}
