package peer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	meetTimeout  = time.Minute          // until every rank of the world is there
	shakeTimeout = 10 * time.Second     // for one connection to say who it is
	redial       = 5 * time.Millisecond // between attempts to reach a rank that does not listen yet
	socketBuffer = 1 << 20              // asked of the kernel, which may give less
	cardSize     = sha256.Size + 3*4
	purpose      = "cpbench reference v1" // keeps this use of the token apart from every other
)

// Listener waits for the other ranks of an execution.
type Listener struct {
	l           *net.UnixListener
	token       []byte
	rank, world int
}

// Listen opens this rank's socket. Its name, which every user of the machine can read, is derived from the token
// by a one-way function.
func Listen(token string, rank, world int) (*Listener, error) {
	l, err := net.ListenUnix("unix", address([]byte(token), rank))
	if err != nil {
		return nil, fmt.Errorf("exchange socket of rank %d: %w", rank, err)
	}
	return &Listener{l: l, token: []byte(token), rank: rank, world: world}, nil
}

// Close gives the socket up.
func (l *Listener) Close() error { return l.l.Close() }

// Meet connects this rank with all others: it calls the lower ranks and is called by the higher ones. Whoever is
// of another user or does not know the token is turned away. The listener is closed when Meet returns. Ranks that
// are not there within a minute are an error.
func (l *Listener) Meet(ctx context.Context) (*Peers, error) {
	ctx, cancel := context.WithTimeout(ctx, meetTimeout)
	defer cancel()
	defer func() { _ = l.l.Close() }() // nobody is expected any more
	p := &Peers{rank: l.rank, conns: make([]*net.UnixConn, l.world)}
	g, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { _ = l.l.Close() })
	defer stop()
	g.Go(func() error { return l.accept(ctx, p) })
	for r := range l.rank {
		g.Go(func() (err error) {
			p.conns[r], err = l.call(ctx, r)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// guest is a connection from a rank that has proved who it is.
type guest struct {
	rank int
	conn *net.UnixConn
}

// accept fills in the connections from the higher ranks.
func (l *Listener) accept(ctx context.Context, p *Peers) error {
	guests, failed := make(chan guest), make(chan error, 1)
	go l.welcome(ctx, guests, failed)
	for missing := l.world - 1 - l.rank; missing > 0; {
		select {
		case g := <-guests:
			if p.conns[g.rank] != nil {
				_ = g.conn.Close() // a rank calls once
				continue
			}
			p.conns[g.rank] = g.conn
			missing--
		case err := <-failed:
			if ctx.Err() != nil {
				return fmt.Errorf("%d of %d ranks called within %s", l.world-1-l.rank-missing, l.world-1-l.rank, meetTimeout)
			}
			return fmt.Errorf("exchange socket of rank %d: %w", l.rank, err)
		}
	}
	return nil
}

// welcome admits callers until the listener is closed. Each is looked at on its own, so that one who says nothing
// keeps nobody waiting.
func (l *Listener) welcome(ctx context.Context, guests chan<- guest, failed chan<- error) {
	for {
		c, err := l.l.AcceptUnix()
		if err != nil {
			failed <- err
			return
		}
		go func() {
			rank, err := l.admit(c)
			if err != nil {
				_ = c.Close() // a stranger: nothing is owed to it, not even a reason
				return
			}
			select {
			case guests <- guest{rank, c}:
			case <-ctx.Done():
				_ = c.Close()
			}
		}()
	}
}

// admit returns the rank at the other end of a new connection.
func (l *Listener) admit(c *net.UnixConn) (int, error) {
	if err := prepare(c); err != nil {
		return 0, err
	}
	got := make([]byte, cardSize)
	if _, err := io.ReadFull(c, got); err != nil {
		return 0, err
	}
	from := int(binary.BigEndian.Uint32(got[sha256.Size:]))
	if from <= l.rank || from >= l.world || !hmac.Equal(got, card(l.token, from, l.rank, l.world)) {
		return 0, errors.New("not a higher rank of this execution")
	}
	if _, err := c.Write(card(l.token, l.rank, from, l.world)); err != nil {
		return 0, err
	}
	return from, c.SetDeadline(time.Time{})
}

// call connects to a lower rank, waiting until it listens.
func (l *Listener) call(ctx context.Context, rank int) (*net.UnixConn, error) {
	var d net.Dialer
	for {
		c, err := d.DialContext(ctx, "unix", address(l.token, rank).Name)
		if err == nil {
			return l.greet(c.(*net.UnixConn), rank)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.EAGAIN) {
			return nil, fmt.Errorf("call rank %d: %w", rank, cause(err))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("rank %d does not listen after %s", rank, meetTimeout)
		case <-time.After(redial):
		}
	}
}

// greet proves to a lower rank who is calling, and has it prove the same.
func (l *Listener) greet(c *net.UnixConn, rank int) (_ *net.UnixConn, err error) {
	defer func() {
		if err != nil {
			_ = c.Close()
			err = fmt.Errorf("greet rank %d: %w", rank, err)
		}
	}()
	if err := prepare(c); err != nil {
		return nil, err
	}
	if _, err := c.Write(card(l.token, l.rank, rank, l.world)); err != nil {
		return nil, err
	}
	got := make([]byte, cardSize)
	if _, err := io.ReadFull(c, got); err != nil {
		return nil, err
	}
	if !hmac.Equal(got, card(l.token, rank, l.rank, l.world)) {
		return nil, errors.New("it does not belong to this execution")
	}
	return c, c.SetDeadline(time.Time{})
}

// prepare checks that the process at the other end is the same user's and sets the connection up.
func prepare(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		peer, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("user at the other end: %w", credErr)
	}
	if int(peer.Uid) != os.Getuid() {
		return fmt.Errorf("the other end is of user %d, not %d", peer.Uid, os.Getuid())
	}
	_ = c.SetReadBuffer(socketBuffer) // smaller buffers are slower and nothing else
	_ = c.SetWriteBuffer(socketBuffer)
	return c.SetDeadline(time.Now().Add(shakeTimeout))
}

// card is what a rank says to another: a proof that it knows the token, bound to both numbers and the world size,
// and these numbers.
func card(token []byte, from, to, world int) []byte {
	numbers := make([]byte, 0, 3*4)
	for _, n := range []int{from, to, world} {
		numbers = binary.BigEndian.AppendUint32(numbers, uint32(n))
	}
	mac := hmac.New(sha256.New, token)
	mac.Write([]byte(purpose + " card"))
	mac.Write(numbers)
	return append(mac.Sum(nil), numbers...)
}

// address names the socket of a rank in the abstract namespace, where nothing is left behind on disk.
func address(token []byte, rank int) *net.UnixAddr {
	mac := hmac.New(sha256.New, token)
	mac.Write([]byte(purpose + " name"))
	return &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("@cpbench-%s-%d", hex.EncodeToString(mac.Sum(nil)[:16]), rank)}
}
