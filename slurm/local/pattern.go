package local

import (
	"strconv"
	"strings"
)

// noTask is what Slurm puts in place of %a where there is no array.
const noTask = "4294967294"

// outputPath expands the patterns of --output for one task: %A the array's id, %a the index, %j the task's own id, %x
// the job name, %% a per cent sign; a number as in %4a pads ids and indices with zeros. Other patterns stay as they are.
// As in Slurm, a backslash in the name turns all patterns off and is taken away itself.
func (h Header) outputPath(id, jobID string, index int) string {
	name := h.Output
	if name == "" && h.Indices == nil {
		name = "slurm-%j.out"
	} else if name == "" {
		name = "slurm-%A_%a.out"
	}
	if strings.Contains(name, `\`) {
		return unescape(name)
	}
	var out strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			out.WriteByte(name[i])
			continue
		}
		end := i + 1
		for end < len(name) && '0' <= name[end] && name[end] <= '9' {
			end++
		}
		text, known := "", false
		if end < len(name) {
			text, known = h.expand(name[end], id, jobID, index, name[i+1:end])
		}
		if !known {
			out.WriteByte('%')
			continue
		}
		out.WriteString(text)
		i = end
	}
	return out.String()
}

// expand returns what the pattern of one letter stands for.
func (h Header) expand(letter byte, id, jobID string, index int, width string) (text string, known bool) {
	switch letter {
	case '%':
		return "%", width == ""
	case 'x':
		if h.Name == "" {
			return "(null)", true
		}
		return h.Name, true
	case 'A':
		text = id
	case 'a':
		if text = noTask; h.Indices != nil {
			text = strconv.Itoa(index)
		}
	case 'j':
		text = jobID
	default:
		return "", false
	}
	n, _ := strconv.Atoi(width)
	return strings.Repeat("0", max(0, min(n, 10)-len(text))) + text, true
}

// unescape takes one level of backslashes away.
func unescape(name string) string {
	var out strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '\\' && i+1 < len(name) {
			i++
		} else if name[i] == '\\' {
			break
		}
		out.WriteByte(name[i])
	}
	return out.String()
}
