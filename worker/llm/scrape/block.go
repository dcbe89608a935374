package scrape

import "strconv"

// cacheConfig is the family in whose labels vLLM tells how its prefix cache is set up.
const cacheConfig = "vllm:cache_config_info"

// BlockSize is the number of tokens in a block of the prefix cache, the largest of all engines: only whole blocks are
// found again. Nil: the server does not tell it.
func (s *Snapshot) BlockSize() *int {
	var size *int
	for _, one := range s.series {
		if one.name != cacheConfig {
			continue
		}
		if n, err := strconv.Atoi(one.labels["block_size"]); err == nil && n > 0 && (size == nil || n > *size) {
			size = &n
		}
	}
	return size
}
