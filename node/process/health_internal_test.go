package process

import (
	"context"
	"errors"
	"net"
	"testing"
)

// Without a path an app is well that takes a connection, however it is found out whether it
// does; why it is not says the dial.
func TestAnAppThatTakesAConnectionIsWell(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	dials := 0
	dial := func(ctx context.Context) (net.Conn, error) {
		dials++
		c, err := new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return nil, gone
		}
		return c, nil
	}
	for _, addr := range []string{ln.Addr().String(), "", "localhost:1", "192.0.2.1:80"} {
		if err := appChecker(dial, addr, "", &appInstance{})(t.Context()); err != nil {
			t.Errorf("at %q: %v, want it well", addr, err)
		}
	}
	if dials < 3 {
		t.Errorf("%d dials: an app is asked beside them that is not known to be on this machine", dials)
	}
	_ = ln.Close()
	for _, addr := range []string{ln.Addr().String(), ""} {
		if err := appChecker(dial, addr, "", &appInstance{})(t.Context()); !errors.Is(err, gone) {
			t.Errorf("at %q, where nobody listens: %v, want what the dial says", addr, err)
		}
	}
}
