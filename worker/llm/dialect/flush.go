package dialect

import (
	"context"
	"fmt"
)

// Flush empties the prefix cache. A server that is busy refuses or, as vLLM does, answers that it was no success with
// the status of one: both are errors. The error wraps ErrUnsupported if the server has no way to.
func (s *Server) Flush(ctx context.Context) error {
	switch s.Kind {
	case VLLM:
		var answer struct{ Success *bool }
		err := s.post(ctx, "/reset_prefix_cache", map[string]any{}, &answer)
		switch {
		case lacks(err):
			return fmt.Errorf("emptying the cache: %w: vLLM has the endpoint only with VLLM_SERVER_DEV_MODE=1", ErrUnsupported)
		case err != nil: // older versions answer with nothing at all, which says nothing about the cache
			return fmt.Errorf("emptying the cache: %w", err)
		case answer.Success == nil || !*answer.Success:
			return fmt.Errorf("emptying the cache: the server says that it was not: some of it is in use")
		}
		return nil
	case SGLang:
		if err := s.post(ctx, "/flush_cache", map[string]any{}, nil); err != nil {
			return fmt.Errorf("emptying the cache: %w", err)
		}
		return nil
	case LlamaCPP, TGI, TRTLLM, None:
	}
	return fmt.Errorf("emptying the cache: %w: %s", ErrUnsupported, s.Kind)
}
