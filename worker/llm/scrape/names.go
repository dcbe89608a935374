package scrape

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// quantity is something that servers tell under different names.
type quantity int

const (
	running quantity = iota
	waiting
	kvUse
	promptTokens
	generationTokens
	finished
	preempted
	cacheQueries
	cacheHits
	rounds
	proposed
	accepted
	acceptedAt // by the label "position"
)

// processStart is the start of the process in Unix time; a Python server with several API processes has none.
const processStart = "process_start_time_seconds"

// names are the names of a quantity, newest first. The names of one entry are added up, and all of them are needed.
// No two servers share a name, so the table needs no kind of server. The suffix _total may be there or not.
//
// From part 2.3 and 2.4 of the reference and the servers' public sources:
//   - the queries and hits of vLLM's prefix cache were called gpu_prefix_cache_* until June 2025; their unit was blocks
//     at first and is tokens now, so only their ratio is safe;
//   - what vLLM's connectors bring from a cache outside its memory has a counter of its own, and is as little computed
//     as what was found within; all queries come to the cache within first;
//   - the prompt tokens of llama.cpp are those that were computed; those from the cache stand in a counter of their own;
//   - SGLang wrote a colon after its name before it wrote an underscore;
//   - TensorRT-LLM counts no rounds of speculation;
//   - tgi_request_count of TGI counts calls of the tokenizer too, tgi_request_success only answers.
var names = map[quantity][][]string{
	running:          {{"vllm:num_requests_running"}, {"sglang:num_running_reqs"}, {"sglang_num_running_reqs"}, {"llamacpp:requests_processing"}, {"tgi_batch_current_size"}, {"trtllm_num_requests_running"}},
	waiting:          {{"vllm:num_requests_waiting"}, {"sglang:num_queue_reqs"}, {"sglang_num_queue_reqs"}, {"llamacpp:requests_deferred"}, {"tgi_queue_size"}, {"trtllm_num_requests_waiting"}},
	kvUse:            {{"vllm:kv_cache_usage_perc"}, {"vllm:gpu_cache_usage_perc"}, {"sglang:token_usage"}, {"sglang_token_usage"}, {"llamacpp:kv_cache_usage_ratio"}, {"trtllm_kv_cache_utilization"}},
	promptTokens:     {{"vllm:prompt_tokens"}, {"sglang:prompt_tokens"}, {"sglang_prompt_tokens"}, {"llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"}, {"tgi_request_input_length_sum"}, {"trtllm_prompt_tokens"}},
	generationTokens: {{"vllm:generation_tokens"}, {"sglang:generation_tokens"}, {"sglang_generation_tokens"}, {"llamacpp:tokens_predicted"}, {"tgi_request_generated_tokens_sum"}, {"trtllm_generation_tokens"}},
	finished:         {{"vllm:request_success"}, {"sglang:num_requests"}, {"sglang_num_requests"}, {"tgi_request_success"}, {"trtllm_request_success"}},
	preempted:        {{"vllm:num_preemptions"}, {"sglang:num_retracted_requests"}, {"sglang_num_retracted_requests"}},
	cacheQueries:     {{"vllm:prefix_cache_queries"}, {"vllm:gpu_prefix_cache_queries"}, {"sglang:prompt_tokens"}, {"sglang_prompt_tokens"}, {"llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"}},
	cacheHits:        {{"vllm:prefix_cache_hits", "vllm:external_prefix_cache_hits"}, {"vllm:prefix_cache_hits"}, {"vllm:gpu_prefix_cache_hits"}, {"sglang:cached_tokens"}, {"sglang_cached_tokens"}, {"llamacpp:prompt_tokens_cached"}},
	rounds:           {{"vllm:spec_decode_num_drafts"}, {"llamacpp:spec_decode_num_drafts"}},
	proposed:         {{"vllm:spec_decode_num_draft_tokens"}, {"llamacpp:spec_decode_num_draft_tokens"}, {"trtllm_spec_decode_num_draft_tokens"}},
	accepted:         {{"vllm:spec_decode_num_accepted_tokens"}, {"llamacpp:spec_decode_num_accepted_tokens"}, {"trtllm_spec_decode_num_accepted_tokens"}},
	acceptedAt:       {{"vllm:spec_decode_num_accepted_tokens_per_pos"}, {"llamacpp:spec_decode_num_accepted_tokens_per_pos"}},
}

// Lifetime gauges are averages since the server started, which no difference turns into those of a group.
var (
	acceptLength = []string{"sglang:spec_accept_length", "sglang_spec_accept_length"}
	acceptRate   = []string{"sglang:spec_accept_rate", "sglang_spec_accept_rate", "vllm:spec_decode_draft_acceptance_rate"}
)

// known reports whether a family is one of a model server or the start of the process.
func known(name string) bool {
	for _, prefix := range []string{"vllm:", "sglang:", "sglang_", "llamacpp:", "tgi_", "trtllm_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == processStart
}

// find is all series of a quantity, of the newest name that is complete.
func (s *Snapshot) find(q quantity) []series {
	for _, set := range names[q] {
		if found := s.set(set); found != nil {
			return found
		}
	}
	return nil
}

// set is all series of some names, nil if one of them has none.
func (s *Snapshot) set(set []string) []series {
	var all []series
	for _, name := range set {
		n := len(all)
		for _, one := range s.series {
			if one.name == name || one.name == name+"_total" {
				all = append(all, one)
			}
		}
		if len(all) == n {
			return nil
		}
	}
	return all
}

// sum adds a quantity up over all engines and addresses; nil if it is not there.
func (s *Snapshot) sum(q quantity) *float64 {
	found := s.find(q)
	if found == nil {
		return nil
	}
	var v float64
	for _, one := range found {
		v += one.value
	}
	return &v
}

// positions are the accepted draft tokens by their place in the draft, from 0, over all engines; nil if there are none
// or if the places are not counted through.
func (s *Snapshot) positions() []float64 {
	by := map[int]float64{}
	for _, one := range s.find(acceptedAt) {
		n, err := strconv.Atoi(one.labels["position"])
		if err != nil {
			return nil
		}
		by[n] += one.value
	}
	var out []float64
	for i := range len(by) {
		v, ok := by[i]
		if !ok {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// engines are the engines that have a gauge, by those of its labels that do not divide one engine's requests.
func (s *Snapshot) engines(q quantity) []string {
	var all []string
	for _, one := range s.find(q) {
		one.name, one.labels = "", maps.Clone(one.labels)
		delete(one.labels, "reason")
		delete(one.labels, "priority")
		all = append(all, one.key())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// single is the value of a gauge that stands there once, under any of its names.
func (s *Snapshot) single(names []string) *float64 {
	for _, name := range names {
		if found := s.set([]string{name}); len(found) == 1 {
			return &found[0].value
		}
	}
	return nil
}
