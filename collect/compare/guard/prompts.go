package guard

import (
	"cmp"
	"slices"
)

// Prompts is the key of the hashes of what was sent.
const Prompts = "prompts_sha256"

// prompts compares the hashes of what was sent, repeat by repeat: servers without salts get another text each time.
func (g *Guard) prompts(rowCase string, sides [2][]Member) []Difference {
	var all values
	differ := false
	for _, v := range sent(sides) {
		for side := range v {
			for _, hash := range v[side] {
				all.add(side, hash[:min(12, len(hash))])
			}
		}
		differ = differ || len(v[0]) > 0 && len(v[1]) > 0 && !slices.Equal(v[0], v[1])
	}
	shared := slices.ContainsFunc(all[0], func(h string) bool { return slices.Contains(all[1], h) })
	d := Difference{Prompts, all[0], all[1]}
	if !differ && shared || len(d.A) == 0 || len(d.B) == 0 || !g.refuses(rowCase, d) {
		return nil
	}
	return []Difference{d}
}

// sent are the hashes of the prompts, by the number of the repeat, which is another one in every start.
func sent(sides [2][]Member) map[int]*values {
	by := map[int]*values{}
	for side, members := range sides {
		for _, m := range members {
			group := m.Pair.Result.Group
			if group == nil {
				continue
			}
			n := m.Pair.Repeat
			if by[n] == nil {
				by[n] = &values{}
			}
			by[n].add(side, cmp.Or(group.Prompts, notKnown))
		}
	}
	return by
}
