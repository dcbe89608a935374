package node

import (
	"fmt"
	"net"
	"testing"
)

func TestFreePort(t *testing.T) {
	t.Parallel()
	first, err := FreePort(nil, "a task")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	second, err := FreePort(nil, "a task")
	if err != nil || second == first || second < 10000 || second >= 60999 {
		t.Errorf("a second port of the same task: %d after %d, %v", second, first, err)
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	for _, hosts := range [][]string{nil, {"localhost"}, {"localhost", "localhost"}} {
		l, connect, err := Listen(hosts)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		host, _, err := net.SplitHostPort(connect)
		if err != nil || len(hosts) > 1 && host != hosts[0] || len(hosts) < 2 && host != "127.0.0.1" {
			t.Errorf("%q: found at %s, %v", hosts, connect, err)
		}
		if ip := l.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() {
			t.Errorf("%q: listens on %v", hosts, ip)
		}
	}
	if _, _, err := Listen([]string{"no such host.invalid", "localhost"}); err == nil {
		t.Error("listens for a host without an address")
	}
}
