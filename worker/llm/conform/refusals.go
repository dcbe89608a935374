package conform

import (
	"fmt"
	"net/http"
)

// refusalChecks look at requests that cannot be answered.
var refusalChecks = []check{
	{Check{"prompt too long", "vllm#10847, sglang#15732", "a server that cuts a prompt in silence measures another size than the one that was asked for"}, func(e *evidence) (Verdict, string) {
		switch a := e.long; {
		case a == nil:
			return NotOffered, "the server does not tell its context limit, or it is too large to be tried"
		case a.ok():
			used := "an unknown number"
			if n := a.numbers.PromptTokens; n != nil {
				used = fmt.Sprint(*n)
			}
			return Fail, fmt.Sprintf("it was answered: of a prompt of more than %d tokens %s were used", *e.server.ContextLimit, used)
		case a.facts.InBand != nil:
			return Warn, "status 200 with an error in the stream: " + brief(a.facts.InBand.Text)
		default:
			return refused(a, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity)
		}
	}},
	{Check{"unknown model", "OpenAI API", "a server that answers for any name measures another model than the one that was asked for"}, func(e *evidence) (Verdict, string) {
		switch a := e.unknownModel; {
		case a == nil:
			return NotOffered, "it was not sent"
		case a.ok():
			return Warn, "it was answered: the name of the model is not looked at"
		default:
			return refused(a, http.StatusNotFound, http.StatusBadRequest)
		}
	}},
	{Check{"broken JSON", "OpenAI API", "an error object that can be read is the reason in the result of a failed group"}, func(e *evidence) (Verdict, string) {
		if e.noJSON.ok() {
			return Fail, "it was answered"
		}
		return refused(e.noJSON, http.StatusBadRequest, http.StatusUnprocessableEntity)
	}},
	{Check{"too many requests", "vLLM's Python client loses the body of a 429", "a group with refused streams is a failed group; Retry-After says when to come back"}, func(e *evidence) (Verdict, string) {
		for _, a := range append([]*answer{e.again, e.other, e.stopped, e.each, e.glyphs}, e.wide...) {
			if s := a.status(); s != nil && s.Status == http.StatusTooManyRequests {
				if s.RetryAfter == "" {
					return Warn, "429 without Retry-After"
				}
				return Pass, "429 with Retry-After: " + s.RetryAfter
			}
		}
		return NotOffered, "so few requests do not provoke it"
	}},
}

// refused looks at a refusal: one of some statuses, with a message that can be read.
func refused(a *answer, good ...int) (Verdict, string) {
	s := a.status()
	if s == nil {
		return Fail, a.failure()
	}
	seen := fmt.Sprintf("status %d", s.Status)
	fits := false
	for _, g := range good {
		fits = fits || s.Status == g
	}
	switch {
	case s.Detail == nil || s.Detail.Message == "":
		return Warn, seen + " without a message that can be read"
	case !fits:
		return Warn, fmt.Sprintf("%s, where %d is usual: %s", seen, good[0], brief(s.Detail.Message))
	}
	return Pass, seen + ": " + brief(s.Detail.Message)
}
