package node

import (
	"net"
)

// Listen opens the port on which the worker hears what it has started on the given nodes, this one first, and tells
// the address at which these find it. With one node, or none named, that is loopback. Otherwise it is the address of
// this node's name; where that name means loopback here but the other nodes have real addresses, it is every address of
// this node. Whoever connects has to know a secret.
func Listen(hosts []string) (l net.Listener, connect string, err error) {
	name := "127.0.0.1"
	if len(hosts) > 1 {
		name = hosts[0]
	}
	address, err := Address(hosts)
	if err != nil {
		return nil, "", err
	}
	l, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		l.Close()
		return nil, "", err
	}
	return l, net.JoinHostPort(name, port), nil
}

// Address is what Listen binds: an IP address, or nothing for all of them.
func Address(hosts []string) (string, error) {
	if len(hosts) < 2 {
		return "127.0.0.1", nil
	}
	own, err := net.LookupHost(hosts[0])
	if err != nil {
		return "", err
	}
	if !net.ParseIP(own[0]).IsLoopback() {
		return own[0], nil
	}
	for _, other := range hosts[1:] {
		if found, err := net.LookupHost(other); err != nil || !net.ParseIP(found[0]).IsLoopback() {
			return "", nil
		}
	}
	return own[0], nil
}
