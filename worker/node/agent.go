package node

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
)

// Serve is the agent: it says hello to the worker that the environment names and does what it is asked, until the
// connection or ctx ends. Then it ends whatever executions have left on this node. A lost connection is the usual end
// and no error.
func Serve(ctx context.Context, opts Options) error {
	address, token := os.Getenv(EnvConnect), os.Getenv(EnvToken)
	if address == "" || token == "" {
		return fmt.Errorf("%s and %s are not set: this program is started by cpbench worker", EnvConnect, EnvToken)
	}
	name, err := Name()
	if err != nil {
		return err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("worker at %s=%s: %w", EnvConnect, address, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	lines := json.NewEncoder(conn)
	if err := lines.Encode(hello{Token: token, Node: name, PID: os.Getpid()}); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	local := NewLocal(opts)
	defer local.Close()
	scanner := bufio.NewScanner(conn)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		var r Request
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			return fmt.Errorf("line of the worker: %w", err)
		}
		if err := lines.Encode(local.Do(ctx, r)); err != nil {
			return nil //nolint:nilerr // the worker has gone
		}
	}
	return nil
}

// Name is the name of this node, as the scheduler calls it.
func Name() (string, error) {
	if name := os.Getenv("SLURMD_NODENAME"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err == nil && name == "" {
		err = errors.New("this machine has no name")
	}
	return name, err
}
