package plan

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// maxNodes bounds the nodes of a spec after its aliases are followed, so that a small file cannot grow without end.
const maxNodes = 2_000_000

// Load decodes and checks a spec. file is its name in messages. Every mistake is reported at once, in one
// multierror of *Problem.
func Load(file string, data []byte) (*Spec, error) { return load(file, data, func(*Spec) {}) }

// load is Load, with what complete fills in between the decoding and the check.
func load(file string, data []byte, complete func(*Spec)) (*Spec, error) {
	spec := newSpec()
	ps := &problems{file: file, pos: map[string]Pos{}, bad: map[string]bool{}}
	d := &decoder{problems: ps}
	root := parse(ps, data)
	if root == nil {
		return nil, ps.err()
	}
	d.decode(root, reflect.ValueOf(spec).Elem(), "")
	spec.file, spec.pos = file, ps.pos
	spec.kindDefaults()
	complete(spec)
	if !d.foreign {
		spec.check(ps, !d.broken)
	}
	if err := ps.err(); err != nil {
		return nil, err
	}
	return spec, nil
}

// newSpec returns a spec with the defaults that the schema tags state.
func newSpec() *Spec {
	s := &Spec{}
	setDefaults(reflect.ValueOf(s).Elem())
	return s
}

// parse reads the only document of data and returns its mapping, or nil after telling what is wrong.
func parse(ps *problems, data []byte) *yaml.Node {
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		ps.add(Pos{1, 1}, "`cpbench init DIR` writes a sweep to start from", "the spec is empty")
		return nil
	case err != nil:
		ps.add(syntaxPos(err), "", "not valid YAML: %s", strings.TrimPrefix(yamlText.ReplaceAllString(err.Error(), ""), "yaml: "))
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		ps.add(Pos{root.Line, root.Column}, "begin with `version: 1`", "a spec is a mapping of keys, not %s", kindName(root))
		return nil
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		ps.add(Pos{max(more.Line, 1), max(more.Column, 1)}, "put each sweep into a file of its own", "a spec is one YAML document")
		return nil
	}
	return root
}

// listIndex is the place in a list, within a path.
var listIndex = regexp.MustCompile(`\[\d+\]`)

var yamlText = regexp.MustCompile(`^yaml: (line (\d+): )?`)

func syntaxPos(err error) Pos {
	if m := yamlText.FindStringSubmatch(err.Error()); m != nil && m[2] != "" {
		line, _ := strconv.Atoi(m[2])
		return Pos{line, 1}
	}
	return Pos{1, 1}
}

// decoder fills a Spec from YAML nodes, strictly: it keeps going after a mistake and remembers every place.
type decoder struct {
	*problems
	nodes   int
	broken  bool // a mistake left the names incomplete: what uses them would be blamed for nothing
	foreign bool // the workload is of a kind whose keys are not known
	once    sync.Once
}

func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string) {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.add(Pos{n.Line, n.Column}, "", "the spec grows beyond %d values when its aliases are followed", maxNodes)
		}
		return
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if path != "" {
		d.pos[path] = Pos{n.Line, n.Column}
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return // `qos:` with nothing behind it is the default
	}
	if p, ok := v.Addr().Interface().(nodeDecoder); ok {
		p.decodeNode(d, n, path)
		return
	}
	switch v.Kind() { //nolint:exhaustive // the kinds that the spec's fields have
	case reflect.Struct:
		d.mapping(n, v, path)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		setDefaults(v.Elem())
		d.decode(n, v.Elem(), path)
	case reflect.Slice:
		d.sequence(n, v, path)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		d.pairs(n, path, func(key, val *yaml.Node, at string) {
			if text, ok := d.scalar(val, at); ok {
				v.SetMapIndex(reflect.ValueOf(key.Value), reflect.ValueOf(text))
			}
		})
	default:
		d.setScalar(n, v, path)
	}
}

// nodeDecoder is a type with a form of its own in the spec.
type nodeDecoder interface {
	decodeNode(d *decoder, n *yaml.Node, path string)
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	fields, names := structFields(v.Type())
	if w, ok := v.Addr().Interface().(*Workload); ok && kindIn(n) == "llm" {
		setDefaults(reflect.ValueOf(&w.LLM).Elem()) // those of other kinds have none of its keys
	}
	d.pairs(n, path, func(key, val *yaml.Node, at string) {
		if i, ok := fields[key.Value]; ok {
			before := d.count()
			d.decode(val, v.FieldByIndex(i), at)
			d.bad[at] = d.count() > before
			d.broken = d.broken || path == "" && d.bad[at] && slices.Contains(namers, at)
			return
		}
		if text, ok := unbuilt[listIndex.ReplaceAllString(at, "")]; ok {
			d.add(Pos{key.Line, key.Column}, "remove it", "%q has no effect in this version: %s", at, text)
			return
		}
		if other, ok := elsewhere[at]; ok {
			d.bad[other[0]] = true // or it would be told as missing as well
			d.add(Pos{key.Line, key.Column}, other[1], "unknown key %q%s", key.Value, in(path))
			return
		}
		like := nearest(key.Value, names)
		if like != "" {
			d.bad[strings.TrimPrefix(path+"."+like, ".")] = true // or it would be told as missing as well
		}
		if path == "" && (like == "" || like == "workload" || slices.Contains(namers, like)) {
			d.broken = true // what it was meant to name would be blamed for being unknown
		}
		d.add(Pos{key.Line, key.Column}, didYouMean(key.Value, names), "unknown key %q%s", key.Value, in(path))
	})
}

// pairs calls f for each key of a mapping, with the path of its value, and refuses what is no mapping, keys that
// stand twice, and merge keys.
func (d *decoder) pairs(n *yaml.Node, path string, f func(key, val *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode {
		d.add(Pos{n.Line, n.Column}, "", "%sa mapping of keys is needed, not %s", label(path), kindName(n))
		return
	}
	if path == "workload" && d.unknownKind(n) {
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.add(Pos{key.Line, key.Column}, "", "a key must be plain text, not %s", kindName(key))
		case key.Tag == "!!merge":
			d.add(Pos{key.Line, key.Column}, "write the keys out, or use an alias for a whole value", "merge keys (<<) are not supported")
		case seen[key.Value]:
			d.add(Pos{key.Line, key.Column}, "", "key %q stands twice%s", key.Value, in(path))
		default:
			seen[key.Value] = true
			f(key, val, join(path, key.Value))
		}
	}
}

// namers are the keys that give names to expressions.
var namers = []string{"matrix", "zip", "include", "derive"}

func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		hint := "write it as [a, b]"
		if path == "workload.command" {
			hint = "a command is a list of arguments, such as [python3, model.py], and no shell reads it"
		}
		d.add(Pos{n.Line, n.Column}, hint, "%sa list is needed, not %s", label(path), kindName(n))
		return
	}
	s := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, c := range n.Content {
		setDefaults(s.Index(i))
		d.decode(c, s.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
	v.Set(s)
}

// scalar returns the text of a plain value, as the user wrote it.
func (d *decoder) scalar(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.pos[path] = Pos{n.Line, n.Column}
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.add(Pos{n.Line, n.Column}, "", "%sa plain value is needed, not %s", label(path), kindName(n))
		return "", false
	}
	return n.Value, true
}

func (d *decoder) setScalar(n *yaml.Node, v reflect.Value, path string) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	switch v.Kind() { //nolint:exhaustive // the kinds that the spec's fields have
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			d.at(path, "", "%sa whole number is needed, not %q", label(path), text)
			return
		}
		v.SetInt(i)
	case reflect.Bool:
		if text != "true" && text != "false" {
			d.at(path, "write true or false", "%strue or false is needed, not %q", label(path), text)
			return
		}
		v.SetBool(text == "true")
	default:
		panic("plan: no decoder for " + v.Type().String())
	}
}

func kindName(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "nothing"
	}
	return "a plain value"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func label(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func in(path string) string {
	if path == "" {
		return ""
	}
	return " in " + path
}
