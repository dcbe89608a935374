package plan

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// checkServer finds what is wrong with the server.
func (s *Spec) checkServer(ps *problems) {
	const at = "workload.server"
	v := &s.Workload.Server
	started := len(v.Command) > 0
	switch {
	case started && v.URL != "":
		ps.at(at, "remove one of them", "%s: url and command exclude one another: a server is there, or it is started", at)
	case !started && v.URL == "" && !ps.bad[at]:
		ps.at(at, "write `server: {url: \"http://127.0.0.1:8000\"}` or `server: {command: [...]}`", "%s needs a url or a command", at)
	case !started:
		for _, name := range []string{"ready", "ready_timeout", "env", "stop_grace"} {
			if _, given := ps.pos[at+"."+name]; given {
				ps.at(at+"."+name, "remove it", "%s.%s has no effect on a server that runs already", at, name)
			}
		}
		if s.Workload.Starts != 1 {
			ps.at("workload.starts", "write `server: {command: [...]}`", "workload.starts: only a server with a command is started")
		}
	}
	checkURL(ps, at+".url", v.URL)
	checkText(ps, at+".ready", v.Ready)
	if started {
		s.checkStart(ps)
	}
}

// checkStart finds what is wrong with how a server is started.
func (s *Spec) checkStart(ps *problems) {
	const at = "workload.server"
	v := &s.Workload.Server
	for i, arg := range v.Command {
		path := indexed(at+".command", i)
		if strings.ContainsRune(arg, 0) {
			ps.at(path, "", "an argument cannot hold a NUL character")
		}
		if name, value, _ := strings.Cut(arg, "="); strings.HasPrefix(arg, "-") && secretName(strings.TrimLeft(name, "-")) && (value != "" || i+1 < len(v.Command)) {
			ps.at(path, nameTheVariable, "%s: %s looks like a secret", path, name)
		}
	}
	if !slices.ContainsFunc(v.Command, mentionsPort) && !mentionsPortIn(v.Env) {
		ps.at(at+".command", "add for example `--port, \"{port}\"`", "%s.command: nothing uses {port}, so nobody would know where the server listens", at)
	}
	for name, value := range v.Env {
		path := at + ".env." + name
		if !envName.MatchString(name) || strings.HasPrefix(name, "CPBENCH_") || strings.HasPrefix(name, "SLURM_") {
			ps.at(path, "use letters, digits and underscore; CPBENCH_ and SLURM_ are taken", "%s.env: %q cannot be set", at, name)
		}
		checkText(ps, path, value)
		refuseSecret(ps, path, name, value)
	}
	if !strings.HasPrefix(v.Ready, "/") {
		checkURL(ps, at+".ready", v.Ready)
	}
}

const nameTheVariable = "set the variable where the sweep is started, which the server inherits, and name it in api_key_env"

func mentionsPort(text string) bool { return strings.Contains(text, "{port}") }

func mentionsPortIn(env map[string]string) bool {
	for _, v := range env {
		if mentionsPort(v) {
			return true
		}
	}
	return false
}

// checkURL refuses what is no address of a server. Values of the point may stand in it.
func checkURL(ps *problems, path, text string) {
	if text == "" || strings.HasPrefix(text, "{") {
		return
	}
	checkText(ps, path, text)
	u, err := url.Parse(anyName.ReplaceAllString(text, "1"))
	switch {
	case strings.Contains(text, "@") || err == nil && u.User != nil: // its text is not told
		ps.at(path, "leave name and password out, and name the variable of the key in api_key_env", "%s: an address cannot hold a name or a password", path)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		ps.at(path, "write it as http://HOST:PORT", "%s: %q is no address", path, text)
	case u.RawQuery != "" || u.Fragment != "":
		ps.at(path, "write it as http://HOST:PORT", "%s: an address has nothing behind a ? or a #", path)
	}
}

var anyName = regexp.MustCompile(`\{[^{}]*\}`)

// refuseSecret refuses what looks like a key or a password, without telling it.
func refuseSecret(ps *problems, path, name string, value any) {
	text, isText := value.(string)
	if secretName(name) && (!isText || text != "") || isText && secretValue.MatchString(text) {
		ps.at(path, nameTheVariable, "%s looks like a secret, which would stand in the run folder", path)
	}
}

var secretValue = regexp.MustCompile(`^(sk-|hf_|ghp_|xox[bp]-|Bearer )`)

// secretName reports whether a name is that of a secret: HF_TOKEN and api-key are, max_tokens and TOKENIZERS_PARALLELISM
// are not.
func secretName(name string) bool {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '-' || r == '.' })
	if len(parts) == 0 {
		return false
	}
	last := parts[len(parts)-1]
	return last == "key" || last == "token" || last == "apikey" ||
		slices.ContainsFunc(parts, func(p string) bool {
			return slices.Contains([]string{"secret", "password", "passwd", "credential", "credentials", "authorization"}, p)
		})
}
